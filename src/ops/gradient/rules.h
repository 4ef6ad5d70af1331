// What the rules share.
#pragma once
#include "ops/common.h"
#include "ops/gradients.h"

namespace tw::ops {

using graph::compare;
using graph::emit;
using graph::GradientCall;
using graph::Term;
using graph::Terms;
using Ints = std::vector<int64_t>;

/// Attribute `key`, a number of either kind, as the operator reads it: f32, as ONNX attributes are.
double number_attr(const GradientCall& g, const std::string& key, double fallback);
/// x * x.
inline Term square(const Term& x) { return x * x; }
/// 0, 1, .., n - 1 in i64, along `axis` of a tensor of `rank` dimensions.
Term positions(const GradientCall& g, int64_t n, int64_t axis, size_t rank);
/// The axes [first, rank).
Ints axes_from(int64_t first, size_t rank);
/// steps[d] - 1 zeros behind each element of axis d, where it has several.
Term spaced(const Term& x, const Ints& steps);

}  // namespace tw::ops
