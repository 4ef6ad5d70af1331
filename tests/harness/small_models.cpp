#include "tests/harness/small_models.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace tw::testing {

std::vector<std::string> small_models() {
  std::vector<std::string> paths;
  const char* folder = std::getenv("TW_MODELS_DIR");
  if (folder == nullptr) return paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().ends_with("_small.onnx")) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace tw::testing
