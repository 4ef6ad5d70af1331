#include "driver/dump.h"

#include <filesystem>
#include <fstream>

#include "support/error.h"

namespace tw::driver {

Dumper::Dumper(std::string directory) : directory_(std::move(directory)) {
  if (directory_.empty()) return;
  std::error_code code;
  std::filesystem::create_directories(directory_, code);
  if (code) throw UsageError("--dump-ir: cannot make the folder '{}': {}", directory_, code.message());
}

void Dumper::write(std::string_view phase, std::string_view pass, const std::string& text) {
  if (!enabled()) return;
  const std::string path = fmt::format("{}/{:03}_{}_{}.txt", directory_, number_++, phase, pass);
  std::ofstream file(path);
  file << text;
  if (!file) throw ResourceError("cannot write '{}'", path);
}

}  // namespace tw::driver
