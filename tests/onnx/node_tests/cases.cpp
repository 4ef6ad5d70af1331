#include "tests/onnx/node_tests/cases.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "frontend/onnx/import.h"

namespace tw::conformance {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> numbered(const fs::path& folder, const std::string& stem) {
  std::vector<std::string> files;
  for (int i = 0;; ++i) {
    const fs::path file = folder / (stem + "_" + std::to_string(i) + ".pb");
    if (!fs::exists(file)) return files;
    files.push_back(file.string());
  }
}

Case folder_case(const std::string& suite, const fs::path& folder) {
  Case result{suite + "/" + folder.filename().string(), (folder / "model.onnx").string(), {}};
  for (int i = 0;; ++i) {
    const fs::path set = folder / ("test_data_set_" + std::to_string(i));
    if (!fs::exists(set)) return result;
    result.data.push_back({numbered(set, "input"), numbered(set, "output")});
  }
}

Case light_case(const fs::path& model) {
  Case result{"light/" + model.stem().string(), model.string(), {}};
  result.ramp_input = true;
  result.data.push_back({{}, numbered(model.parent_path(), model.stem().string() + "_output")});
  return result;
}

}  // namespace

std::vector<Case> find_cases(const std::string& root) {
  std::vector<Case> cases;
  for (const char* suite : {"node", "simple", "pytorch-operator", "pytorch-converted"}) {
    if (!fs::exists(fs::path(root) / suite)) continue;
    for (const auto& entry : fs::directory_iterator(fs::path(root) / suite)) {
      if (fs::exists(entry.path() / "model.onnx")) cases.push_back(folder_case(suite, entry.path()));
    }
  }
  if (fs::exists(fs::path(root) / "light")) {
    for (const auto& entry : fs::directory_iterator(fs::path(root) / "light")) {
      if (entry.path().extension() == ".onnx") cases.push_back(light_case(entry.path()));
    }
  }
  std::ranges::sort(cases, {}, &Case::name);
  return cases;
}

graph::RefTensor read_tensor_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return frontend::read_tensor_proto(std::as_bytes(std::span(text)));
}

}  // namespace tw::conformance
