#include "driver/api/tensors.h"

namespace tw::driver::api {
namespace {

DataType element_type(const std::string& what, DLDataType type) {
  if (type.lanes == 1) {
    for (int s = 0; s <= static_cast<int>(ScalarType::kF64); ++s) {
      const DataType candidate(static_cast<ScalarType>(s));
      const int code = candidate.is_bool()             ? kDLBool
                       : candidate == DataType::bf16() ? kDLBfloat
                       : candidate.is_float()          ? kDLFloat
                       : candidate.is_signed_int()     ? kDLInt
                                                       : kDLUInt;
      if (code == type.code && candidate.bits() == type.bits) return candidate;
    }
  }
  throw UsageError("{}: element type (code {}, {} bits, {} lanes) is not supported", what, static_cast<int>(type.code),
                   static_cast<int>(type.bits), static_cast<int>(type.lanes));
}

bool is_compact(const DLTensor& tensor, const Shape& shape) {
  if (tensor.strides == nullptr) return true;
  const Shape wanted = row_major_strides(shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1 && tensor.strides[d] != wanted[d]) return false;
  }
  return true;
}

// Type and elements of `what`, a tensor of the caller's.
std::pair<TensorType, std::span<const std::byte>> contents_of(const std::string& what, const DLTensor& tensor) {
  TensorType type{element_type(what, tensor.dtype), {}};
  if (tensor.ndim < 0 || (tensor.ndim > 0 && tensor.shape == nullptr)) throw UsageError("{} has no shape", what);
  type.shape.assign(tensor.shape, tensor.shape + tensor.ndim);
  for (const int64_t extent : type.shape) {
    if (extent < 0) throw UsageError("{} has a negative extent", what);
  }
  if (tensor.device.device_type != kDLCPU) throw UsageError("{} is not in CPU memory", what);
  if (!is_compact(tensor, type.shape)) throw UsageError("{} is not compact and row-major", what);
  if (tensor.data == nullptr && type.elements() > 0) throw UsageError("{} has no data", what);
  const auto* data = static_cast<const std::byte*>(tensor.data) + (type.elements() > 0 ? tensor.byte_offset : 0);
  return {type, {data, static_cast<size_t>(type.bytes())}};
}

}  // namespace

graph::RefTensor to_reference(const std::string& what, const DLTensor& tensor) {
  const auto [type, bytes] = contents_of(what, tensor);
  return graph::RefTensor::from_bytes(type, bytes);
}

frontend::Weight to_weight(const std::string& what, const DLTensor& tensor) {
  const auto [type, bytes] = contents_of(what, tensor);
  return {type, share(std::vector<std::byte>(bytes.begin(), bytes.end()))};
}

}  // namespace tw::driver::api
