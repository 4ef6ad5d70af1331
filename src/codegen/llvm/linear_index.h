// The indices of one access, linearised over the row-major shape of its buffer:
//   element = constant + sum(scale * atom) + sum(scale * vector atom)[lane] + lane_stride * lane
// so that an address is one base register plus a displacement. Knows nothing of LLVM.
#pragma once
#include <span>
#include <vector>

#include "core/shape.h"
#include "expr/expr.h"

namespace tw::codegen::cpu {

struct LinearTerm {
  Expr atom;  // a scalar (in `terms`) or a vector (in `vectors`) that is no sum, product or ramp with constants
  int64_t scale = 0;
};

struct LinearIndex {
  std::vector<LinearTerm> terms;
  std::vector<LinearTerm> vectors;
  int64_t constant = 0;
  int64_t lane_stride = 0;
  int lanes = 1;

  /// One element for all lanes, or one run of lanes with constant stride.
  bool is_strided() const { return vectors.empty(); }
  bool is_constant() const { return terms.empty() && vectors.empty(); }
};

LinearIndex linearise(const Shape& shape, std::span<const Expr> indices);

}  // namespace tw::codegen::cpu
