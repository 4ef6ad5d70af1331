#include "expr/scalar.h"

#include <algorithm>
#include <cmath>

#include "core/storage.h"
#include "support/error.h"

namespace tw {

double round_to(ScalarType type, double x) {
  if (type == ScalarType::kF32) return static_cast<float>(x);
  if (type == ScalarType::kF16) return f16_value(f16_bits(x));
  return type == ScalarType::kBF16 ? bf16_value(bf16_bits(x)) : x;
}

int64_t wrap_to(ScalarType type, int64_t x) {
  if (type == ScalarType::kBool) return x != 0;
  if (is_float(type)) return x;
  return with_storage(type, [x]<typename T>(T) { return static_cast<int64_t>(static_cast<T>(x)); });
}

int64_t saturate_to(ScalarType to, double x) {
  if (to == ScalarType::kBool) return x != 0;
  if (std::isnan(x)) return 0;
  if (to == ScalarType::kU64) {
    if (x >= 0x1p64) return -1;
    return x <= 0 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(x));
  }
  if (to == ScalarType::kI64) {
    if (x >= 0x1p63) return INT64_MAX;
    return x <= -0x1p63 ? INT64_MIN : static_cast<int64_t>(x);
  }
  const DataType type(to);
  const int value_bits = type.bits() - (type.is_signed_int() ? 1 : 0);
  const double high = std::ldexp(1.0, value_bits) - 1;
  const double low = type.is_signed_int() ? -high - 1 : 0.0;
  return static_cast<int64_t>(std::clamp(std::trunc(x), low, high));
}

Op lane_operation(Op reduce) {
  constexpr Op kSteps[] = {Op::kAdd, Op::kMin, Op::kMax, Op::kMul, Op::kAnd, Op::kOr};  // of kReduceAdd ..
  TW_CHECK(is_lane_reduction(reduce), "no reduction over lanes");
  return kSteps[static_cast<size_t>(reduce) - static_cast<size_t>(Op::kReduceAdd)];
}

}  // namespace tw
