#include "runtime/format/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "runtime/format/atomic_file.h"
#include "runtime/format/error.h"
#include "runtime/format/manifest.h"

namespace tw::format {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kAlignment = 8;  // of the elements: the header is filled up with spaces

/// Indexed by DataType.
constexpr std::string_view kNames[] = {"BOOL", "I8",  "U8",  "I16",  "U16", "I32", "U32",
                                       "I64",  "U64", "F16", "BF16", "F32", "F64"};

[[noreturn]] void refuse(const auto&... why) { fail(ErrorCode::kInvalidArgument, "no safetensors file: ", why...); }

DataType type_of(const std::string& name, const std::string& tensor) {
  const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) refuse("tensor '", tensor, "' has the unknown element type '", name, "'");
  return static_cast<DataType>(found - std::begin(kNames));
}

NamedTensor read_row(const std::string& name, const Json& row, Bytes data) {
  NamedTensor tensor{
      name, type_of(row.at("dtype").get<std::string>(), name), row.at("shape").get<std::vector<int64_t>>(), {}};
  const auto offsets = row.at("data_offsets").get<std::array<uint64_t, 2>>();
  uint64_t elements = 1;
  for (const int64_t extent : tensor.shape) {
    if (extent < 0 || static_cast<uint64_t>(extent) > data.size() || elements > data.size())
      refuse("tensor '", name, "' has an extent of ", extent, " in a file of ", data.size(), " bytes");
    elements *= static_cast<uint64_t>(extent);
  }
  const bool inside = offsets[0] <= offsets[1] && offsets[1] <= data.size();
  if (!inside || elements * static_cast<uint64_t>(bytes_of(tensor.dtype)) != offsets[1] - offsets[0])
    refuse("tensor '", name, "': offsets ", offsets[0], " to ", offsets[1], " do not fit ", shape_text(tensor.shape));
  tensor.bytes = data.subspan(offsets[0], offsets[1] - offsets[0]);
  return tensor;
}

}  // namespace

std::vector<NamedTensor> parse_safetensors(Bytes file) {
  uint64_t header_size = 0;
  if (file.size() < sizeof(header_size)) refuse("it is too short");
  std::memcpy(&header_size, file.data(), sizeof(header_size));
  if (header_size > file.size() - sizeof(header_size)) refuse("its header is cut off");
  const Bytes header = file.subspan(sizeof(header_size), header_size);
  const Bytes data = file.subspan(sizeof(header_size) + header_size);
  std::vector<NamedTensor> tensors;
  try {
    const Json rows = Json::parse(header.begin(), header.end());
    if (!rows.is_object()) refuse("its header is no object");
    for (const auto& [name, row] : rows.items()) {
      if (name != "__metadata__") tensors.push_back(read_row(name, row, data));
    }
  } catch (const Json::exception& error) {
    refuse(std::string(error.what()));
  }
  std::ranges::sort(tensors, {}, &NamedTensor::name);
  const auto twice = std::ranges::adjacent_find(tensors, {}, &NamedTensor::name);
  if (twice != tensors.end()) refuse("tensor '", twice->name, "' is there twice");
  return tensors;
}

void write_safetensors(const std::string& path, std::vector<NamedTensor> tensors) {
  // Elements lie without gaps: in this order each tensor is aligned to its own.
  std::ranges::sort(tensors, [](const NamedTensor& a, const NamedTensor& b) {
    return std::pair(-bytes_of(a.dtype), a.name) < std::pair(-bytes_of(b.dtype), b.name);
  });
  Json rows = Json::object();
  uint64_t end = 0;
  for (const NamedTensor& tensor : tensors) {
    rows[tensor.name] = {{"dtype", kNames[static_cast<size_t>(tensor.dtype)]},
                         {"shape", tensor.shape},
                         {"data_offsets", {end, end + tensor.bytes.size()}}};
    end += tensor.bytes.size();
  }
  std::string header = rows.dump(-1, ' ', false, Json::error_handler_t::replace);
  header.append((kAlignment - header.size() % kAlignment) % kAlignment, ' ');
  const uint64_t size = header.size();
  write_file_atomically(path, [&](const PutBytes& put) {
    put(0, {reinterpret_cast<const uint8_t*>(&size), sizeof(size)});
    put(sizeof(size), bytes_of(header));
    uint64_t at = sizeof(size) + size;
    for (const NamedTensor& tensor : tensors) {
      put(at, tensor.bytes);
      at += tensor.bytes.size();
    }
  });
}

}  // namespace tw::format
