#include "measure/fill.h"

#include <cmath>
#include <cstring>
#include <mutex>

#include "core/storage.h"
#include "support/error.h"
#include "support/hash.h"
#include "support/parallel.h"
#include "support/random.h"
#include "te/materialize.h"

namespace tw::measure {
namespace {

constexpr int64_t kElementCost = 16;  // of making or comparing one, in multiply-adds
constexpr double kSmallest = 0.0625;  // magnitude: far from zero, so that quotients stay tame

/// Number i of the stream `seed`.
uint64_t random_word(uint64_t seed, uint64_t i) { return split_mix(seed + (i + 1) * kSplitMixStep); }

double random_float(Fill fill, uint64_t word) {
  const double sign = fill != Fill::kPositive && (word & 1) != 0 ? -1 : 1;
  if (fill == Fill::kSigns) return sign;
  const double unit = static_cast<double>(word >> 11) * 0x1p-53;
  return sign * (kSmallest + (1 - kSmallest) * unit);
}

std::vector<std::byte> random_elements(const BufferSpec& spec) {
  std::vector<std::byte> bytes(static_cast<size_t>(spec.type.bytes()));
  const DataType type = spec.type.type;
  const auto value = [&](uint64_t word) -> double {
    if (type.is_bool()) return static_cast<double>((word >> 8) & 1);
    if (type.is_int()) return static_cast<double>(1 + (word >> 8) % static_cast<uint64_t>(spec.most));
    const double number = random_float(spec.fill, word);
    return type == DataType::f16() ? f16_bits(number) : type == DataType::bf16() ? bf16_bits(number) : number;
  };
  with_storage(type.scalar(), [&]<typename T>(T) {
    auto* out = reinterpret_cast<T*>(bytes.data());
    parallel_ranges(std::ssize(bytes) / sizeof(T), kElementCost, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        out[i] = static_cast<T>(value(random_word(spec.seed, static_cast<uint64_t>(i))));
    });
  });
  return bytes;
}

template <typename T, typename Value>
Difference difference_of(std::span<const std::byte> a, std::span<const std::byte> b, const Value& value) {
  const auto* x = reinterpret_cast<const T*>(a.data());
  const auto* y = reinterpret_cast<const T*>(b.data());
  std::mutex mutex;
  Difference all;
  parallel_ranges(std::ssize(a) / sizeof(T), kElementCost, [&](int64_t begin, int64_t end) {
    Difference out;
    for (int64_t i = begin; i < end; ++i) {
      if (std::memcmp(&x[i], &y[i], sizeof(T)) == 0) continue;
      const double p = value(x[i]), q = value(y[i]);
      if (p == q || (std::isnan(p) && std::isnan(q))) continue;
      const double far = std::isfinite(p) && std::isfinite(q) ? std::fabs(p - q) : INFINITY;
      if (far > out.largest) out = {far, i};
    }
    const std::lock_guard lock(mutex);
    const bool is_first = out.largest == all.largest && out.element < all.element;  // whichever thread was faster
    if (out.largest > all.largest || is_first) all = out;
  });
  return all;
}

}  // namespace

Difference difference(DataType type, std::span<const std::byte> a, std::span<const std::byte> b) {
  const auto value = [&](auto x) {
    if (type.is_half()) return (type == DataType::f16() ? f16_value : bf16_value)(static_cast<uint16_t>(x));
    return static_cast<double>(x);
  };
  return with_storage(type.scalar(), [&]<typename T>(T) { return difference_of<T>(a, b, value); });
}

int64_t storage_size(const BufferSpec& spec) {
  return num_elements(spec.layout.storage_shape(spec.type.shape)) * spec.type.type.bytes();
}

std::string describe(const BufferSpec& spec) {
  return fmt::format("{} | {} | {} {} {} {}", to_string(spec.type), to_string(spec.layout), static_cast<int>(spec.fill),
                     spec.seed, spec.most, content_hash(std::span(spec.bytes)));
}

std::vector<std::byte> storage_bytes(const BufferSpec& spec) {
  if (spec.fill == Fill::kNothing) return std::vector<std::byte>(static_cast<size_t>(storage_size(spec)));
  TW_CHECK(spec.fill != Fill::kBytes || static_cast<int64_t>(spec.bytes.size()) == spec.type.bytes(),
           "{} bytes for a buffer of {}", spec.bytes.size(), to_string(spec.type));
  std::vector<std::byte> logical = spec.fill == Fill::kBytes ? spec.bytes : random_elements(spec);
  if (spec.layout.is_identity()) return logical;
  return te::materialize(logical, static_cast<size_t>(spec.type.type.bytes()), spec.type.shape, spec.layout);
}

}  // namespace tw::measure
