#include "graph/ref_tensor.h"

#include <bit>
#include <cstring>

#include "support/error.h"

namespace tw::graph {
namespace {

static_assert(std::endian::native == std::endian::little, "constants are little endian and copied as they are");

template <typename T, typename Out>
void widen(std::span<const std::byte> bytes, std::vector<Out>& out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = static_cast<Out>(value);
  }
}

template <typename T, typename In>
void narrow(const std::vector<In>& in, std::vector<std::byte>& bytes) {
  for (size_t i = 0; i < in.size(); ++i) {
    const T value = static_cast<T>(in[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
}

double round_float(double value, ScalarType type) {
  switch (type) {
    case ScalarType::kF16:
      return f16_value(f16_bits(value));
    case ScalarType::kBF16:
      return bf16_value(bf16_bits(value));
    case ScalarType::kF32:
      return static_cast<float>(value);
    default:
      return value;
  }
}

}  // namespace

int64_t wrap_int(int64_t value, DataType type) {
  switch (type.scalar()) {
    case ScalarType::kBool:
      return value != 0;
    case ScalarType::kI8:
      return static_cast<int8_t>(value);
    case ScalarType::kU8:
      return static_cast<uint8_t>(value);
    case ScalarType::kI16:
      return static_cast<int16_t>(value);
    case ScalarType::kU16:
      return static_cast<uint16_t>(value);
    case ScalarType::kI32:
      return static_cast<int32_t>(value);
    case ScalarType::kU32:
      return static_cast<uint32_t>(value);
    default:
      return value;
  }
}

double RefTensor::at(int64_t i) const {
  if (is_float()) return floats[i];
  return type.type.scalar() == ScalarType::kU64 ? static_cast<double>(static_cast<uint64_t>(ints[i]))
                                                : static_cast<double>(ints[i]);
}

RefTensor RefTensor::zeros(TensorType type) {
  RefTensor result{.type = std::move(type), .floats = {}, .ints = {}};
  if (result.is_float()) {
    result.floats.assign(result.type.elements(), 0.0);
  } else {
    result.ints.assign(result.type.elements(), 0);
  }
  return result;
}

RefTensor RefTensor::from_bytes(TensorType type, std::span<const std::byte> bytes) {
  TW_CHECK(static_cast<int64_t>(bytes.size()) == type.bytes(), "{} bytes for {}", bytes.size(), to_string(type));
  RefTensor t = zeros(std::move(type));
  switch (t.type.type.scalar()) {
    case ScalarType::kBool:
    case ScalarType::kU8:
      widen<uint8_t>(bytes, t.ints);
      break;
    case ScalarType::kI8:
      widen<int8_t>(bytes, t.ints);
      break;
    case ScalarType::kI16:
      widen<int16_t>(bytes, t.ints);
      break;
    case ScalarType::kU16:
      widen<uint16_t>(bytes, t.ints);
      break;
    case ScalarType::kI32:
      widen<int32_t>(bytes, t.ints);
      break;
    case ScalarType::kU32:
      widen<uint32_t>(bytes, t.ints);
      break;
    case ScalarType::kI64:
    case ScalarType::kU64:
      widen<int64_t>(bytes, t.ints);
      break;
    case ScalarType::kF32:
      widen<float>(bytes, t.floats);
      break;
    case ScalarType::kF64:
      widen<double>(bytes, t.floats);
      break;
    case ScalarType::kF16:
    case ScalarType::kBF16: {
      widen<uint16_t>(bytes, t.floats);
      const bool half = t.type.type == DataType::f16();
      for (double& x : t.floats) x = half ? f16_value(static_cast<uint16_t>(x)) : bf16_value(static_cast<uint16_t>(x));
      break;
    }
  }
  if (t.type.type.is_bool()) t.round_to_type();
  return t;
}

std::vector<std::byte> RefTensor::to_bytes() const {
  std::vector<std::byte> bytes(type.bytes());
  switch (type.type.scalar()) {
    case ScalarType::kBool: {
      RefTensor rounded = *this;
      rounded.round_to_type();
      narrow<uint8_t>(rounded.ints, bytes);
      break;
    }
    case ScalarType::kU8:
      narrow<uint8_t>(ints, bytes);
      break;
    case ScalarType::kI8:
      narrow<int8_t>(ints, bytes);
      break;
    case ScalarType::kI16:
      narrow<int16_t>(ints, bytes);
      break;
    case ScalarType::kU16:
      narrow<uint16_t>(ints, bytes);
      break;
    case ScalarType::kI32:
      narrow<int32_t>(ints, bytes);
      break;
    case ScalarType::kU32:
      narrow<uint32_t>(ints, bytes);
      break;
    case ScalarType::kI64:
    case ScalarType::kU64:
      narrow<int64_t>(ints, bytes);
      break;
    case ScalarType::kF32:
      narrow<float>(floats, bytes);
      break;
    case ScalarType::kF64:
      narrow<double>(floats, bytes);
      break;
    case ScalarType::kF16:
    case ScalarType::kBF16: {
      std::vector<uint16_t> bits(floats.size());
      for (size_t i = 0; i < bits.size(); ++i) {
        bits[i] = type.type == DataType::f16() ? f16_bits(floats[i]) : bf16_bits(floats[i]);
      }
      narrow<uint16_t>(bits, bytes);
      break;
    }
  }
  return bytes;
}

void RefTensor::round_to_type() {
  for (double& x : floats) x = round_float(x, type.type.scalar());
  for (int64_t& x : ints) x = wrap_int(x, type.type);
}

}  // namespace tw::graph
