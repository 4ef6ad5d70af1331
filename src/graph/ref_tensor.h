// Tensors of the reference evaluator: floats of any width in f64, integers and bools in i64, row-major.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor_type.h"
#include "expr/scalar.h"

namespace tw::graph {

struct RefTensor {
  TensorType type;
  std::vector<double> floats = {};  // when type is a float
  std::vector<int64_t> ints = {};   // otherwise (u64 as its bits, bool 0 or 1)

  /// Zeros.
  static RefTensor zeros(TensorType type);
  /// From row-major little-endian elements of `type`.
  static RefTensor from_bytes(TensorType type, std::span<const std::byte> bytes);
  /// Rounded to `type` (nearest even); the inverse of from_bytes on values the type holds.
  std::vector<std::byte> to_bytes() const;
  /// Every element rounded to `type`.
  void round_to_type();
  bool is_float() const { return type.type.is_float(); }
  /// Element `i` along the first axis, without that axis.
  RefTensor row(int64_t i) const;
  /// Element as f64 whatever the type (u64 as the unsigned number its bits mean).
  double at(int64_t i) const;
};

/// `value` in two's complement of the width of an integer or bool type (bool: 0 or 1).
inline int64_t wrap_int(int64_t value, DataType type) { return wrap_to(type.scalar(), value); }

}  // namespace tw::graph
