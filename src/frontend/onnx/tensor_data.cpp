#include "frontend/onnx/tensor_data.h"

#include <onnx-ml.pb.h>

#include <cstring>

#include "frontend/onnx/element_type.h"
#include "frontend/onnx/limits.h"
#include "support/error.h"

namespace tw::frontend {
namespace {

[[noreturn]] void fail_size(const std::string& name, const TensorType& type, int64_t found, std::string_view unit) {
  throw UserError(fmt::format("tensor '{}' of type {} needs {} {}, the model holds {}", name, to_string(type),
                              unit == "bytes" ? type.bytes() : type.elements(), unit, found));
}

template <typename To, typename Field>
void copy_field(const std::string& name, const TensorType& type, const Field& field, std::vector<std::byte>& bytes) {
  if (field.size() != type.elements()) fail_size(name, type, field.size(), "elements");
  bytes.resize(type.bytes());
  for (int i = 0; i < field.size(); ++i) {
    const To value = static_cast<To>(field[i]);
    std::memcpy(bytes.data() + i * sizeof(To), &value, sizeof(To));
  }
}

std::vector<std::byte> typed_data(const onnx::TensorProto& tensor, const TensorType& type) {
  std::vector<std::byte> bytes;
  const std::string& name = tensor.name();
  switch (type.type.scalar()) {
    case ScalarType::kBool:
    case ScalarType::kU8:
    case ScalarType::kI8:
      copy_field<uint8_t>(name, type, tensor.int32_data(), bytes);
      break;
    case ScalarType::kI16:
    case ScalarType::kU16:
    case ScalarType::kF16:
    case ScalarType::kBF16:
      copy_field<uint16_t>(name, type, tensor.int32_data(), bytes);
      break;
    case ScalarType::kI32:
      copy_field<int32_t>(name, type, tensor.int32_data(), bytes);
      break;
    case ScalarType::kI64:
      copy_field<int64_t>(name, type, tensor.int64_data(), bytes);
      break;
    case ScalarType::kU32:
      copy_field<uint32_t>(name, type, tensor.uint64_data(), bytes);
      break;
    case ScalarType::kU64:
      copy_field<uint64_t>(name, type, tensor.uint64_data(), bytes);
      break;
    case ScalarType::kF32:
      copy_field<float>(name, type, tensor.float_data(), bytes);
      break;
    case ScalarType::kF64:
      copy_field<double>(name, type, tensor.double_data(), bytes);
      break;
  }
  return bytes;
}

std::vector<std::byte> raw_data(const onnx::TensorProto& tensor, const TensorType& type) {
  const std::string& raw = tensor.raw_data();
  if (static_cast<int64_t>(raw.size()) != type.bytes()) fail_size(tensor.name(), type, raw.size(), "bytes");
  std::vector<std::byte> bytes(raw.size());
  if (!raw.empty()) std::memcpy(bytes.data(), raw.data(), raw.size());
  return bytes;
}

}  // namespace

void check_extents(const Shape& shape, std::string_view what) {
  if (shape.size() > kMaxRank) {
    throw UserError(fmt::format("{} has {} dimensions; at most {} are supported", what, shape.size(), kMaxRank));
  }
  int64_t product = 1;
  bool empty = false;
  for (int64_t extent : shape) {
    if (extent < 0) throw UserError(fmt::format("{} has a negative dimension: {}", what, to_string(shape)));
    empty = empty || extent == 0;
    // A zero anywhere makes the product small, but the other extents must still be sane for index arithmetic.
    if (extent > kMaxElements || (extent > 0 && product > kMaxElements / extent)) {
      throw UserError(fmt::format("{} of shape {} has more than {} elements", what, to_string(shape), kMaxElements));
    }
    if (extent > 0) product *= extent;
  }
}

TensorType tensor_type(const onnx::TensorProto& tensor) {
  const std::string what = fmt::format("tensor '{}'", tensor.name());
  TensorType type{element_type(tensor.data_type(), what), {tensor.dims().begin(), tensor.dims().end()}};
  check_extents(type.shape, what);
  return type;
}

TensorData read_tensor(const onnx::TensorProto& tensor, const ExternalData& files) {
  TensorType type = tensor_type(tensor);
  if (tensor.has_segment()) {
    throw Unsupported(fmt::format("tensor '{}' is stored in segments, which is not supported", tensor.name()));
  }
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) return {type, files.read(tensor, type.bytes())};
  std::vector<std::byte> bytes = tensor.has_raw_data() ? raw_data(tensor, type) : typed_data(tensor, type);
  if (type.type.is_bool()) {
    for (std::byte& b : bytes) b = b == std::byte{0} ? std::byte{0} : std::byte{1};
  }
  return {std::move(type), std::make_shared<const std::vector<std::byte>>(std::move(bytes))};
}

}  // namespace tw::frontend
