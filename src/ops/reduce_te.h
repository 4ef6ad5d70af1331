// Reductions over whole axes of a tensor, as softmax, normalizations and the reduce operators use them.
#pragma once
#include "ops/common.h"

namespace tw::ops {

/// `shape` with every extent of `axes` set to 1.
Shape kept_shape(const Shape& shape, const std::vector<int64_t>& axes);
/// `shape` without the dimensions of `axes` (sorted).
Shape dropped_shape(const Shape& shape, const std::vector<int64_t>& axes);
/// Number of elements along `axes`.
int64_t reduced_count(const Shape& shape, const std::vector<int64_t>& axes);

enum class KeepDims : uint8_t { kNo, kYes };

/// What a reduction reads: `x` over `axes`, the other axes stay in order (as extents 1 where `keep` says so).
struct Reduction {
  Shape shape;                // of x
  std::vector<int64_t> axes;  // sorted
  KeepDims keep = KeepDims::kYes;

  Shape out_shape() const;
  Shape reduce_shape() const;
  /// Indices into x for output indices i and reduction indices r.
  Exprs indices(const Exprs& i, const Exprs& r) const;
};

/// Of input 0 along attribute axis (-1), which stays as extent 1.
Reduction line_of(const OpCall& call);

/// out[i] = combine over r of body(element indices into x): a plain compute when there is no axis to reduce.
te::Tensor reduce_axes(te::Builder& builder, const std::string& name, const Reduction& reduction, te::CombinerKind kind,
                       const std::function<Expr(const Exprs& at)>& body);

enum class Extreme : uint8_t { kMax, kMin };
enum class Tie : uint8_t { kFirst, kLast };

/// Combiner of (value, index) pairs: the extreme value, and of equal ones the first or last index. NaN beats all
/// numbers.
te::Combiner extreme_index_combiner(DataType type, Extreme extreme, Tie tie);

/// Output elements of a reduction in f64: calls visit(output offset, input offset) for every input element, in order.
template <typename Visit>
void for_each_reduced(const Shape& shape, const std::vector<int64_t>& axes, const Visit& visit) {
  Shape strides = row_major_strides(kept_shape(shape, axes));
  for (int64_t axis : axes) strides[axis] = 0;
  const std::vector<int64_t> out = offsets(shape, strides);
  for (size_t in = 0; in < out.size(); ++in) visit(out[in], static_cast<int64_t>(in));
}

}  // namespace tw::ops
