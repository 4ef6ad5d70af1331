#include "frontend/onnx/file/tensor_data.h"

#include <onnx-ml.pb.h>

#include <cstring>
#include <type_traits>

#include "core/storage.h"
#include "frontend/onnx/file/element_type.h"
#include "frontend/onnx/limits.h"
#include "support/error.h"
#include "support/memory.h"

namespace tw::frontend {
namespace {

[[noreturn]] void fail_size(const std::string& name, const TensorType& type, int64_t found, std::string_view unit) {
  throw UserError("tensor '{}' of type {} needs {} {}, the model holds {}", name, to_string(type),
                  unit == "bytes" ? type.bytes() : type.elements(), unit, found);
}

std::vector<std::byte> typed_data(const onnx::TensorProto& tensor, const TensorType& type) {
  std::vector<std::byte> bytes;
  const auto copy = [&](const auto& field, auto element) {
    if (field.size() != type.elements()) fail_size(tensor.name(), type, field.size(), "elements");
    bytes.resize(type.bytes());
    for (int i = 0; i < field.size(); ++i) {
      element = static_cast<decltype(element)>(field[i]);
      std::memcpy(bytes.data() + i * sizeof(element), &element, sizeof(element));
    }
  };
  with_storage(type.type.scalar(), [&]<typename T>(T element) {
    if constexpr (std::is_same_v<T, float>) return copy(tensor.float_data(), element);
    if constexpr (std::is_same_v<T, double>) return copy(tensor.double_data(), element);
    if constexpr (std::is_same_v<T, int64_t>) return copy(tensor.int64_data(), element);
    const bool wide = std::is_same_v<T, uint32_t> || std::is_same_v<T, uint64_t>;
    return wide ? copy(tensor.uint64_data(), element) : copy(tensor.int32_data(), element);
  });
  return bytes;
}

std::vector<std::byte> raw_data(const onnx::TensorProto& tensor, const TensorType& type) {
  const std::string& raw = tensor.raw_data();
  if (static_cast<int64_t>(raw.size()) != type.bytes()) fail_size(tensor.name(), type, raw.size(), "bytes");
  std::vector<std::byte> bytes(raw.size());
  if (!raw.empty()) std::memcpy(bytes.data(), raw.data(), raw.size());
  return bytes;
}

// As onnx.checker has it: of two fields with data nobody knows which one is meant.
void check_fields(const onnx::TensorProto& tensor) {
  const std::pair<std::string_view, bool> fields[] = {
      {"raw_data", !tensor.raw_data().empty()},
      {"float_data", tensor.float_data_size() > 0},
      {"double_data", tensor.double_data_size() > 0},
      {"int32_data", tensor.int32_data_size() > 0},
      {"int64_data", tensor.int64_data_size() > 0},
      {"uint64_data", tensor.uint64_data_size() > 0},
      {"string_data", tensor.string_data_size() > 0},
      {"external_data", tensor.data_location() == onnx::TensorProto::EXTERNAL}};
  std::vector<std::string_view> used;
  for (const auto& [name, is_used] : fields) {
    if (is_used) used.push_back(name);
  }
  if (used.size() > 1)
    throw UserError("tensor '{}' holds its data more than once: in {}", tensor.name(), fmt::join(used, " and "));
}

}  // namespace

void check_extents(const Shape& shape, std::string_view what) {
  if (shape.size() > kMaxRank) {
    throw UserError("{} has {} dimensions; at most {} are supported", what, shape.size(), kMaxRank);
  }
  int64_t product = 1;
  bool empty = false;
  for (int64_t extent : shape) {
    if (extent < 0) throw UserError("{} has a negative dimension: {}", what, to_string(shape));
    empty = empty || extent == 0;
    // A zero anywhere makes the product small, but the other extents must still be sane for index arithmetic.
    if (extent > kMaxElements || (extent > 0 && product > kMaxElements / extent)) {
      throw UserError("{} of shape {} has more than {} elements", what, to_string(shape), kMaxElements);
    }
    if (extent > 0) product *= extent;
  }
}

bool is_supported(const onnx::TensorProto& tensor) try {
  return tensor.data_type() != onnx::TensorProto::UNDEFINED && tensor_type(tensor).elements() >= 0;
} catch (const Unsupported&) {
  return false;
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
    throw Unsupported("tensor '{}' is stored in segments, which is not supported", tensor.name());
  }
  check_fields(tensor);
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) return {type, files.read(tensor, type.bytes())};
  require_memory(type.bytes(), fmt::format("tensor '{}'", tensor.name()));
  const bool is_raw = tensor.has_raw_data() && (!tensor.raw_data().empty() || type.elements() == 0);
  std::vector<std::byte> bytes = is_raw ? raw_data(tensor, type) : typed_data(tensor, type);
  if (type.type.is_bool()) {
    for (std::byte& b : bytes) b = b == std::byte{0} ? std::byte{0} : std::byte{1};
  }
  return {std::move(type), share(std::move(bytes))};
}

}  // namespace tw::frontend
