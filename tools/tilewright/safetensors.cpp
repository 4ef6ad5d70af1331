// .safetensors files as arrays.
#include "runtime/format/safetensors.h"

#include "runtime/format/error.h"
#include "support/error.h"
#include "tilewright/arrays.h"
#include "tilewright/command.h"

namespace tw::cli {

std::map<std::string, artefact::Array> read_safetensors(const std::string& path) try {
  const std::vector<uint8_t> file = read_file(path);
  std::map<std::string, artefact::Array> arrays;
  for (const format::NamedTensor& tensor : format::parse_safetensors(file)) {
    const auto bytes = std::as_bytes(tensor.bytes);
    arrays[tensor.name] = {{*parse_data_type(format::name_of(tensor.dtype)), tensor.shape},
                           {bytes.begin(), bytes.end()}};
  }
  return arrays;
} catch (const format::Error& error) {
  throw UsageError(fmt::format("'{}': {}", path, error.what()));
}

}  // namespace tw::cli
