// Recognises sums of products and the role of each axis in them.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "expr/word_product.h"
#include "support/error.h"
#include "te/te.h"

namespace tw::schedule {

/// C[axes] = sum over reduce_axes of A[..] * B[..]. `column` is the last axis of C: vectors run along it; B is the
/// operand that uses it (both may, as in depthwise convolution). Row axes do not occur in B, so that a B vector is
/// reused for every row; batch axes occur in both, or decide which products are summed, as phases do. A may be a
/// guarded read (padding inlined): select(inside, A, 0). The sum may be taken over a part of the reduction that depends
/// on batch axes: select(condition, A * B, 0).
struct Contraction {
  const te::Compute* compute = nullptr;
  Expr a, b;  // the two loads, without casts, roundings and guards
  te::Axis column;
  std::vector<te::Axis> rows, batch;  // in order
  bool a_uses_column = false;
  bool guarded = false;             // an operand is read behind a guard
  bool tf32 = false;                // the operands are rounded (expr/tf32.h)
  std::optional<WordFormat> words;  // a product is that of two words of this format
  Expr condition;                   // of batch and reduction axes; null: all products are summed
};

/// The contraction that `compute` is, or why it is none.
Result<Contraction> match_contraction(const te::Compute& compute);

/// The first compute of `program` that is a contraction, or null.
const te::Compute* find_contraction(const te::Program& program);

/// Whether element-wise stage `c` of `program` is an operand of a sum of products, which reads each element of it in
/// one step of one row: more than a copy, a conversion or padding, which belong to the read.
bool is_computed_operand(const te::Program& program, const te::Compute& c);

/// Reduction axes from the outermost to the innermost loop: in the order in which A is stored. (The channel axis comes
/// first in a convolution's definition, and is contiguous in channels-last storage.)
std::vector<te::Axis> reduction_order(const te::Program& program, const Contraction& match);

/// The number of products that are summed, at most: as if all were where the condition has too many points to try, and
/// every one that it may sum where it depends on data.
double count_products(const Contraction& match);
/// Of all points of `axes`, how many `holds` takes.
int64_t count_points(std::span<const te::Axis> axes, const std::function<bool(const VarMap& point)>& holds);

}  // namespace tw::schedule
