// Recognises sums of products and the role of each axis in them.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "expr/word_product.h"
#include "support/error.h"
#include "te/te.h"

namespace tw::schedule {

/// C[axes] = sum over reduce_axes of A[..] * B[..]. `column` is the last axis of C: vectors run along it; B is the
/// operand that uses it (both may, as in depthwise convolution). Row axes do not occur in B, so that a B vector is
/// reused for every row; batch axes occur in both. A may be a guarded read (padding inlined): select(inside, A, 0).
/// The sum may be taken over a part of the reduction that depends on batch axes: select(condition, A * B, 0).
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

/// The number of products that are summed, at most: as if all were where the condition has too many points to try, and
/// every one that it may sum where it depends on data.
double count_products(const Contraction& match);
/// Of all points of `axes`, how many `holds` takes.
int64_t count_points(std::span<const te::Axis> axes, const std::function<bool(const VarMap& point)>& holds);

/// Conditions in axes of `sum`, a sum of products; where one of them fails, the term is zero: the parts of the guards
/// of operands that are padded with zeros (a && b of select(a && b, x, 0)). `find` gives the compute of a tensor, or
/// null.
std::vector<Expr> nonzero_conditions(const te::Compute& sum,
                                     const std::function<const te::Compute*(const std::string& tensor)>& find);

/// Reduction steps inside a test for zero terms, from which the test costs little beside them.
inline constexpr int64_t kLeastTestedSteps = 8;

/// The body of a sum without the condition under which its terms are summed: e of select(condition, e, 0), else the
/// body itself.
Expr summed_term(const Expr& body);

/// The dimension of `read` whose index is exactly `axis`, or -1.
int dim_of_axis(const Expr& read, const std::string& axis);
/// By how many points of `pixel` `read` moves from a turn of `tap` to the next; 0: otherwise than along that axis.
int64_t tap_distance(const Expr& read, const std::string& pixel, const std::string& tap);
/// Whether any index of `read` uses `axis`.
bool uses_axis(const Expr& read, const std::string& axis);

}  // namespace tw::schedule
