#include "graph/ref_tensor.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "core/storage.h"
#include "support/error.h"
#include "support/memory.h"
#include "support/parallel.h"

namespace tw::graph {
namespace {

static_assert(std::endian::native == std::endian::little, "constants are little endian and copied as they are");

template <typename T>
void widen(std::span<const std::byte> bytes, auto& out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = static_cast<typename std::remove_cvref_t<decltype(out)>::value_type>(value);
  }
}

constexpr int64_t kHalfCost = 8;  // of rounding one to 16 bits, in multiply-adds

template <typename T>
void narrow(const auto& in, std::vector<std::byte>& bytes) {
  for (size_t i = 0; i < in.size(); ++i) {
    const T value = static_cast<T>(in[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

RefTensor RefTensor::row(int64_t i) const {
  RefTensor one{{type.type, Shape(type.shape.begin() + 1, type.shape.end())}};
  const auto count = static_cast<std::ptrdiff_t>(one.type.elements());
  if (is_float()) one.floats.assign(floats.begin() + i * count, floats.begin() + (i + 1) * count);
  if (!is_float()) one.ints.assign(ints.begin() + i * count, ints.begin() + (i + 1) * count);
  return one;
}

double RefTensor::at(int64_t i) const {
  if (is_float()) return floats[i];
  return type.type.scalar() == ScalarType::kU64 ? static_cast<double>(static_cast<uint64_t>(ints[i]))
                                                : static_cast<double>(ints[i]);
}

RefTensor RefTensor::zeros(TensorType type) {
  require_memory(type.elements() * int64_t{sizeof(double)}, "a tensor of the reference, 8 bytes an element");
  RefTensor result{.type = std::move(type)};
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
  with_storage(t.type.type.scalar(), [&]<typename T>(T) {
    if (t.is_float()) widen<T>(bytes, t.floats);
    if (!t.is_float()) widen<T>(bytes, t.ints);
  });
  if (t.type.type.is_half()) {
    const bool is_f16 = t.type.type == DataType::f16();
    for (double& x : t.floats) x = is_f16 ? f16_value(static_cast<uint16_t>(x)) : bf16_value(static_cast<uint16_t>(x));
  }
  if (t.type.type.is_bool()) t.round_to_type();
  return t;
}

std::vector<std::byte> RefTensor::to_bytes() const {
  std::vector<std::byte> bytes(type.bytes());
  if (type.type.is_half()) {
    const auto bits = type.type == DataType::f16() ? f16_bits : bf16_bits;
    parallel_ranges(std::ssize(floats), kHalfCost, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const uint16_t value = bits(floats[static_cast<size_t>(i)]);
        std::memcpy(bytes.data() + i * sizeof(value), &value, sizeof(value));
      }
    });
    return bytes;
  }
  if (type.type.is_bool()) {
    std::ranges::transform(ints, bytes.begin(), [](int64_t x) { return std::byte{x != 0}; });
    return bytes;
  }
  with_storage(type.type.scalar(), [&]<typename T>(T) {
    if (is_float()) narrow<T>(floats, bytes);
    if (!is_float()) narrow<T>(ints, bytes);
  });
  return bytes;
}

void RefTensor::round_to_type() {
  for (double& x : floats) x = round_to(type.type.scalar(), x);
  for (int64_t& x : ints) x = wrap_to(type.type.scalar(), x);
}

}  // namespace tw::graph
