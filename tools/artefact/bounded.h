// The f64 reference of a graph, and how far each element of a compiled one may lie from it.
#pragma once
#include <vector>

#include "graph/op.h"

namespace tw::artefact {

/// Reference values of a graph's outputs, and the error that each element may have.
struct Bounded {
  std::vector<graph::RefTensor> values;
  std::vector<std::vector<double>> bounds;  // one for each element; 0: exact
  /// The same as if every operator were computed as it is defined: without Winograd's factor, and each element by its
  /// own size. Empty where no operator is computed another way.
  std::vector<std::vector<double>> operator_bounds;
  /// Whether an error moved a step, a truth or an index before the output: what these do is in its bounds as a trial
  /// found it, not kSafety times.
  std::vector<bool> is_behind_moved_step;
};

/// To what an evaluation may round the operands of matrix products of f32, and to tf32 those of convolutions:
/// --precision fast.
enum class Operands : uint8_t { kAsGiven, kBf16, kTf32 };

/// What an evaluation may round besides the results of operators to their own types.
struct NumericsOptions {
  Operands operands = Operands::kAsGiven;
  /// --dtype: every f32 value, whether input, constant or result of an operator, may be stored in this type.
  DataType dtype = DataType::f32();
};

/// Evaluates `body` on `inputs` in f64 and bounds the error of an evaluation in the values' own types.
///
/// Every node contributes a rounding error of its own: a sum of products u*sqrt(K)*sum|a_i b_i|, a Winograd convolution
/// its growth factor times u*sqrt(K)*sum over channels of max|a| over the tile * sum|w| (ops/winograd.h; of uneven
/// tiles that of a sum of products), a mean or sum u*sqrt(K)*sum|x_i| (of terms that are alike more: sum_errors.h), a
/// normalization that of its mean and variance, element-wise functions 2u|y|, data movement,
/// integers, roundings to whole numbers and sums of these nothing (u: unit roundoff of the accumulator). Operands that
/// may be rounded add 2^-8 sum|a_i b_i| (bf16) or 2^-9 of it (tf32, toward zero). With another `dtype`, f32 inputs,
/// constants and results have 2u|y| of that type besides (f16: at least that of its subnormal numbers) where it does
/// not hold them; sums stay those of f32. Their effect on the outputs is found by Monte-Carlo arithmetic: the body is
/// evaluated again with random signs on these errors (in the first trial one sign for those of 16-bit numbers that are
/// summed: few digits round alike). Bound of an element: kSafety times the largest deviation seen there (at least the
/// root mean square over the tensor), plus two units in the last place of the narrowest type that is rounded to. Where
/// whole numbers are made of floats, as by a quantization, an error does nothing or moves a step: the body is evaluated
/// with kSafety times each error, and with its opposite, and what that does bounds whole numbers, and floats at least.
/// In the first such pair, where there are more, what an operator jumps at is moved by all of its own bound, one way
/// and the other: a number next to an edge may lie on either side of it. Of values no more is in memory than later
/// nodes read. Source: Higham, Accuracy and Stability of Numerical Algorithms, ch. 3; Parker, Monte Carlo Arithmetic,
/// 1997. `trials`: evaluations with random errors; more make the bound tighter to what is typical and cost as much as
/// the body.
Bounded evaluate_bounded(const graph::Graph& body, const graph::OpTable& ops,
                         const std::vector<graph::RefTensor>& inputs, int trials, const NumericsOptions& numerics = {});

}  // namespace tw::artefact
