// Element types as C++ types.
#pragma once
#include <cstdint>

#include "core/data_type.h"

namespace tw {

/// f(T()) for the C++ type T of an element in memory: uint8_t for bool, uint16_t (the bits) for f16 and bf16.
template <typename F>
auto with_storage(ScalarType type, const F& f) {
  switch (type) {
    case ScalarType::kI8:
      return f(int8_t{});
    case ScalarType::kI16:
      return f(int16_t{});
    case ScalarType::kU16:
    case ScalarType::kF16:
    case ScalarType::kBF16:
      return f(uint16_t{});
    case ScalarType::kI32:
      return f(int32_t{});
    case ScalarType::kU32:
      return f(uint32_t{});
    case ScalarType::kI64:
      return f(int64_t{});
    case ScalarType::kU64:
      return f(uint64_t{});
    case ScalarType::kF32:
      return f(float{});
    case ScalarType::kF64:
      return f(double{});
    default:
      return f(uint8_t{});
  }
}

}  // namespace tw
