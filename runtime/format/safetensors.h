// The .safetensors format: u64 length of a JSON header, the header {name: {dtype, shape, data_offsets}}, the elements.
#pragma once
#include <string>
#include <vector>

#include "runtime/format/data_type.h"
#include "runtime/format/hash.h"

namespace tw::format {

/// A tensor by name: row-major elements, little endian.
struct NamedTensor {
  std::string name;
  DataType dtype = DataType::kF32;
  std::vector<int64_t> shape;
  Bytes bytes;
};

/// The tensors of the file `file`, which must outlive them, in order of their names. Throws Error(kInvalidArgument)
/// with what is wrong: no header, an element type that Tilewright has none for, offsets that do not fit a shape.
std::vector<NamedTensor> parse_safetensors(Bytes file);

/// Replaces `path` by a file of `tensors`, atomically. Equal tensors in any order give equal files. Throws what
/// write_file_atomically throws.
void write_safetensors(const std::string& path, std::vector<NamedTensor> tensors);

}  // namespace tw::format
