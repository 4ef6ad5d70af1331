// The .npy format: magic, version, a Python dict literal, the elements.
#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/format/atomic_file.h"
#include "support/error.h"
#include "tilewright/command.h"
#include "tilewright/values/arrays.h"

namespace tw::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct Descr {
  std::string_view text;
  ScalarType type;
};
constexpr std::array<Descr, 12> kDescrs = {{{"|b1", ScalarType::kBool},
                                            {"|i1", ScalarType::kI8},
                                            {"|u1", ScalarType::kU8},
                                            {"<i2", ScalarType::kI16},
                                            {"<u2", ScalarType::kU16},
                                            {"<i4", ScalarType::kI32},
                                            {"<u4", ScalarType::kU32},
                                            {"<i8", ScalarType::kI64},
                                            {"<u8", ScalarType::kU64},
                                            {"<f2", ScalarType::kF16},
                                            {"<f4", ScalarType::kF32},
                                            {"<f8", ScalarType::kF64}}};

[[noreturn]] void bad(const std::string& name, const std::string& why) {
  throw UsageError(fmt::format("'{}' is not a .npy array: {}", name, why));
}

// The text of a key's value in the header's dict.
std::string_view value_of(std::string_view header, std::string_view key, const std::string& name) {
  const size_t at = header.find(fmt::format("'{}':", key));
  if (at == std::string_view::npos) bad(name, fmt::format("its header has no '{}'", key));
  std::string_view value = header.substr(at + key.size() + 3);
  while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  return value;
}

Shape parse_tuple(std::string_view text, const std::string& name) {
  const size_t close = text.find(')');
  if (text.empty() || text.front() != '(' || close == std::string_view::npos) bad(name, "its shape is not a tuple");
  Shape shape;
  int64_t number = -1;
  for (const char c : text.substr(1, close)) {
    if (c >= '0' && c <= '9') {
      number = (number < 0 ? 0 : number) * 10 + (c - '0');
      if (number > int64_t{1} << 40) bad(name, "an extent is too large");
    } else if (number >= 0) {
      shape.push_back(number);
      number = -1;
    }
  }
  return shape;
}

// Fortran order to row-major: the bytes are a row-major array of the reversed shape.
std::vector<std::byte> from_fortran(const std::vector<std::byte>& data, const Shape& shape, size_t element) {
  std::vector<std::byte> out(data.size());
  const Shape strides = row_major_strides(shape);
  std::vector<int64_t> index(shape.size(), 0);
  for (size_t from = 0; from < data.size(); from += element) {
    int64_t to = 0;
    for (size_t d = 0; d < shape.size(); ++d) to += index[d] * strides[d];
    std::memcpy(&out[to * element], &data[from], element);
    for (size_t d = 0; d < shape.size() && ++index[d] == shape[d]; ++d) index[d] = 0;
  }
  return out;
}

}  // namespace

artefact::Array parse_npy(const std::vector<std::byte>& bytes, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.size() < 12 || text.substr(0, kMagic.size()) != kMagic) bad(name, "it begins otherwise");
  const int version = static_cast<unsigned char>(text[6]);
  const size_t size_bytes = version == 1 ? 2 : 4;
  size_t header_size = 0;
  for (size_t i = 0; i < size_bytes; ++i)
    header_size |= static_cast<size_t>(static_cast<unsigned char>(text[8 + i])) << (8 * i);
  const size_t start = 8 + size_bytes;
  if (version < 1 || version > 3 || start + header_size > text.size()) bad(name, "its header is damaged");
  const std::string_view header = text.substr(start, header_size);
  const std::string_view descr = value_of(header, "descr", name);
  artefact::Array array;
  const auto row = std::find_if(kDescrs.begin(), kDescrs.end(),
                                [&](const Descr& d) { return descr.substr(1, d.text.size()) == d.text; });
  if (row == kDescrs.end()) bad(name, fmt::format("element type {} is not supported", descr.substr(0, 6)));
  array.type = {DataType(row->type), parse_tuple(value_of(header, "shape", name), name)};
  const auto data = bytes.begin() + static_cast<long>(start + header_size);
  if (bytes.end() - data < array.type.bytes())
    bad(name, fmt::format("it holds {} bytes of {}", bytes.end() - data, to_string(array.type)));
  array.bytes.assign(data, data + array.type.bytes());
  if (value_of(header, "fortran_order", name).substr(0, 4) == "True") {
    array.bytes = from_fortran(array.bytes, array.type.shape, array.type.type.bytes());
  }
  return array;
}

artefact::Array read_npy(const std::string& path) {
  const std::vector<uint8_t> file = read_file(path);
  const auto* bytes = reinterpret_cast<const std::byte*>(file.data());
  return parse_npy({bytes, bytes + file.size()}, path);
}

std::vector<std::byte> format_npy(const artefact::Array& array) {
  const auto row =
      std::find_if(kDescrs.begin(), kDescrs.end(), [&](const Descr& d) { return d.type == array.type.type.scalar(); });
  // NumPy has no bfloat16: its bits are stored as unsigned 16-bit numbers.
  const std::string_view descr = row == kDescrs.end() ? "<u2" : row->text;
  std::string shape;
  for (const int64_t extent : array.type.shape) shape += fmt::format("{}, ", extent);
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  const size_t padded = (10 + header.size() + 1 + 63) / 64 * 64;
  header += std::string(padded - 10 - header.size() - 1, ' ') + "\n";
  std::string text(kMagic);
  text += std::string("\x01\x00", 2);
  text += static_cast<char>(header.size() & 255);
  text += static_cast<char>(header.size() >> 8);
  text += header;
  std::vector<std::byte> out(text.size());
  std::memcpy(out.data(), text.data(), text.size());
  out.insert(out.end(), array.bytes.begin(), array.bytes.end());
  return out;
}

void write_npy(const std::string& path, const artefact::Array& array) {
  format::write_file_atomically(path, format::bytes_of(format_npy(array)));
}

}  // namespace tw::cli
