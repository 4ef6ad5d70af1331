// What the operator families share: checks with good messages, axes, broadcasting, element access.
#pragma once
#include <fmt/format.h>

#include <concepts>
#include <functional>
#include <string>
#include <vector>

#include "expr/expr.h"
#include "graph/op.h"
#include "support/error.h"
#include "support/join.h"
#include "support/parallel.h"

namespace tw::ops {

using graph::OpCall;
using graph::OpClass;
using graph::OpDef;
using graph::RefTensor;
using Refs = std::span<const RefTensor>;
using Tensors = std::vector<te::Tensor>;
using Exprs = std::vector<Expr>;
using Types = std::vector<TensorType>;

/// Throws UserError "node 'name' (op): <message>" where the condition does not hold.
template <typename... Args>
void require(const OpCall& call, std::same_as<bool> auto condition, fmt::format_string<Args...> format,
             Args&&... args) {
  if (!condition) graph::reject(call, fmt::format(format, std::forward<Args>(args)...));
}
void require_float(const OpCall& call, size_t input);
void require_same_type(const OpCall& call, size_t a, size_t b);
/// Rejects indices that are neither i32 nor i64.
void require_indices(const OpCall& call, size_t input);
/// The bias, where it is given, has one element for each output channel and the type of input 0.
void require_bias(const OpCall& call, int64_t channels, size_t bias = 2);

/// Axis in [0, rank) of one in [-rank, rank).
int64_t normalize_axis(const OpCall& call, int64_t axis, size_t rank);
/// Attribute `axis`, or `fallback`, as one of input 0.
int64_t axis_of(const OpCall& call, int64_t fallback);
/// Sorted, without repetition. `axes` of the node; all axes when it has none.
std::vector<int64_t> reduced_axes(const OpCall& call, size_t rank);

/// The type in which elements of `type` are computed: f32 for f16 and bf16, else the type itself.
DataType math_type(DataType type);
/// Name for a te tensor of the node: its operator's; `suffix` names an intermediate. The builder numbers equal names.
std::string tensor_name(const OpCall& call, const std::string& suffix = "");

/// Element of `t` at `indices`, in its math type.
Expr read(const te::Tensor& t, Exprs indices);
/// What a contraction sums: of two operands' elements.
using MultiplyFn = std::function<Expr(const Expr& a, const Expr& b)>;
/// Attribute `operands` of a product of f32: "tf32", as which both are multiplied (expr/tf32.h), or absent.
MultiplyFn product_of(const OpCall& call);
/// The elements of operand `x` as that product takes them; `rounded` holds them where they are not x's own.
const std::vector<double>& multiplied(const OpCall& call, const RefTensor& x, std::vector<double>& rounded);
/// Indices into a tensor of shape `in` for the indices `i` of a tensor it is broadcast to (numpy's rule).
Exprs broadcast_indices(const Exprs& i, const Shape& in);
/// The position in [0, extent) that an index of gather's kind means: -n counts from the end, then it is clamped.
Expr te_position(const Expr& index, int64_t extent);
int64_t position(int64_t index, int64_t extent);
/// `t` converted to `type` by a compute of its own; `t` itself when it has that type.
te::Tensor cast_output(const OpCall& call, te::Builder& builder, const te::Tensor& t, DataType type);
/// 0 <= e < extent, where e takes values from `low` to `high`: the half that this decides is left out.
Expr inside(const Expr& e, int64_t extent, int64_t low, int64_t high);
/// The conjunction of all conditions; true when there is none.
Expr all_of(const Exprs& conditions);

/// Calls `visit(index)` for every index of `shape`, in row-major order.
template <typename Visit>
void for_each_index(const Shape& shape, const Visit& visit) {
  if (num_elements(shape) == 0) return;
  std::vector<int64_t> index(shape.size(), 0);
  while (true) {
    visit(index);
    size_t d = shape.size();
    while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

/// Calls `visit(first, stride)` for every line along `axis` of a tensor of `shape`: the offset of its first element,
/// and from one to the next.
template <typename Visit>
void for_each_line(const Shape& shape, int64_t axis, const Visit& visit) {
  const int64_t stride = row_major_strides(shape)[axis], elements = num_elements(shape);
  for (int64_t first = 0; first < elements; ++first) {
    if (first / stride % shape[axis] == 0) visit(first, stride);
  }
}

/// Row-major offset of `index` in a tensor of the given strides.
int64_t offset_of(const std::vector<int64_t>& index, const Shape& strides);

/// A strided walk over an operand beside a row-major result: strides of `in` for each dimension of `out`, 0 where the
/// operand is broadcast.
Shape broadcast_strides(const Shape& in, const Shape& out);

/// For each element of `shape`, in row-major order, the offset by `strides`.
std::vector<int64_t> offsets(const Shape& shape, const Shape& strides);

/// y[to] = x[from], tensors of one type.
inline void copy_element(RefTensor& y, int64_t to, const RefTensor& x, int64_t from) {
  if (y.is_float()) {
    y.floats[to] = x.floats[from];
  } else {
    y.ints[to] = x.ints[from];
  }
}

/// The tensor of `type` whose elements, in row-major order, are those of x at `from(index)`; a negative offset leaves
/// 0.
template <typename From>
RefTensor moved(const TensorType& type, const RefTensor& x, const From& from) {
  RefTensor y = RefTensor::zeros(type);
  int64_t to = 0;
  for_each_index(type.shape, [&](const std::vector<int64_t>& index) {
    const int64_t offset = from(index);
    if (offset >= 0) copy_element(y, to, x, offset);
    ++to;
  });
  return y;
}

/// Two partial results of a sum, product, minimum or maximum as one, in references. Integers wrap at 64 bits, and those
/// of u64 compare as such.
int64_t combined(te::CombinerKind kind, DataType type, int64_t a, int64_t b);
/// Extremes are NaN where one of them is.
double combined(te::CombinerKind kind, double a, double b);

/// The reference of an operator with one result: `fill` gives y, zeros of the type that is inferred, its elements.
template <auto infer, auto fill>
std::vector<RefTensor> filled(const OpCall& call, Refs inputs) {
  RefTensor y = RefTensor::zeros(infer(call)[0]);
  fill(call, inputs, y);
  return {std::move(y)};
}

}  // namespace tw::ops
