// The .safetensors format: u64 length of a JSON header, the header {name: {dtype, shape, data_offsets}}, the elements.
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "support/error.h"
#include "tilewright/arrays.h"
#include "tilewright/command.h"

namespace tw::cli {
namespace {

using Json = nlohmann::json;

struct Name {
  std::string_view text;
  ScalarType type;
};
constexpr std::array<Name, 13> kNames = {{{"BOOL", ScalarType::kBool},
                                          {"I8", ScalarType::kI8},
                                          {"U8", ScalarType::kU8},
                                          {"I16", ScalarType::kI16},
                                          {"U16", ScalarType::kU16},
                                          {"I32", ScalarType::kI32},
                                          {"U32", ScalarType::kU32},
                                          {"I64", ScalarType::kI64},
                                          {"U64", ScalarType::kU64},
                                          {"F16", ScalarType::kF16},
                                          {"BF16", ScalarType::kBF16},
                                          {"F32", ScalarType::kF32},
                                          {"F64", ScalarType::kF64}}};

[[noreturn]] void bad(const std::string& path, const std::string& why) {
  throw UsageError(fmt::format("'{}' is no safetensors file: {}", path, why));
}

DataType type_of(const std::string& path, const std::string& text) {
  for (const Name& name : kNames) {
    if (name.text == text) return DataType(name.type);
  }
  bad(path, fmt::format("element type '{}'", text));
}

artefact::Array read_tensor(const std::string& path, const Json& row, std::span<const uint8_t> data) {
  artefact::Array array;
  array.type = {type_of(path, row.at("dtype").get<std::string>()), row.at("shape").get<Shape>()};
  const auto offsets = row.at("data_offsets").get<std::array<uint64_t, 2>>();
  uint64_t elements = 1;
  for (const int64_t extent : array.type.shape) {
    if (extent < 0 || static_cast<uint64_t>(extent) > data.size() || elements > data.size())
      bad(path, fmt::format("extent {} of a file of {} bytes", extent, data.size()));
    elements *= static_cast<uint64_t>(extent);
  }
  const bool inside = offsets[0] <= offsets[1] && offsets[1] <= data.size();
  if (!inside || static_cast<uint64_t>(array.type.bytes()) != offsets[1] - offsets[0])
    bad(path, fmt::format("offsets {} to {} do not fit {}", offsets[0], offsets[1], to_string(array.type)));
  const auto bytes = std::as_bytes(data.subspan(offsets[0], offsets[1] - offsets[0]));
  array.bytes.assign(bytes.begin(), bytes.end());
  return array;
}

}  // namespace

std::map<std::string, artefact::Array> read_safetensors(const std::string& path) {
  const std::vector<uint8_t> file = read_file(path);
  uint64_t header_size = 0;
  if (file.size() < sizeof(header_size)) bad(path, "it is too short");
  std::memcpy(&header_size, file.data(), sizeof(header_size));
  if (header_size > file.size() - sizeof(header_size)) bad(path, "its header is cut off");
  const std::span<const uint8_t> rest(file.begin() + sizeof(header_size), file.end());
  std::map<std::string, artefact::Array> arrays;
  try {
    const Json header = Json::parse(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(header_size));
    for (const auto& [name, row] : header.items()) {
      if (name != "__metadata__") arrays[name] = read_tensor(path, row, rest.subspan(header_size));
    }
  } catch (const Json::exception& error) {
    bad(path, error.what());
  }
  return arrays;
}

}  // namespace tw::cli
