// Reductions at computed indices (i32 or i64), which mean what gather's mean: -n counts from the end, what lies outside
// is clamped. They are what gather and gather_elements are to be differentiated by, and what scatters at run time are
// made of: no order of writes, no atomics.
//
// scatter_sum(x, indices)           attributes axis, extent: y[a.., v, b..] = sum of x[a.., j.., b..] over all j with
//                                   indices[j..] = v
// scatter_prod, scatter_min, scatter_max
//                                   the same of a product, of the smallest and the largest; where no index is v the
//                                   reduction's neutral element: 1, the largest and the smallest number of the type
// scatter_elements_sum(x, indices)  attributes axis, shape (y's, in no other axis less than x's): y[i..] = sum of
//                                   x[i.. with j at the axis] over all j with indices[i.. with j at the axis] = i[axis]
//                                   where x has such elements, else 0; of floats
// f16 and bf16 are summed in f32.
#include "ops/common.h"
#include "ops/families.h"

namespace tw::ops {
namespace {

// ---- scatter_sum, _prod, _min, _max

using te::CombinerKind;

struct Scatter {
  int64_t axis, extent;
  Shape y;
};

Scatter scatter_of(const OpCall& call) {
  const Shape &x = call.inputs[0].shape, &indices = call.inputs[1].shape;
  const int64_t axis = call.node.int_attr("axis"), extent = call.node.int_attr("extent");
  const int64_t behind = axis + std::ssize(indices);
  require(call,
          axis >= 0 && extent >= 0 && behind <= std::ssize(x) &&
              std::equal(indices.begin(), indices.end(), x.begin() + axis),
          "indices {} and extent {} at axis {} of {}", to_string(call.inputs[1]), extent, axis,
          to_string(call.inputs[0]));
  require(call, extent > 0 || num_elements(indices) == 0, "{} goes into no element", to_string(call.inputs[0]));
  return {axis, extent, joined(Shape(x.begin(), x.begin() + axis), Shape{extent}, std::span(x).subspan(behind))};
}

Types infer_scatter(const OpCall& call) {
  require(call, !call.inputs[0].type.is_bool(), "{} is bool", to_string(call.inputs[0]));
  require_indices(call, 1);
  return {{call.inputs[0].type, scatter_of(call).y}};
}

// What the indices mean, once for all that compare them.
te::Tensor te_positions(const OpCall& call, te::Builder& builder, const te::Tensor& indices, int64_t extent) {
  return builder.compute(tensor_name(call, "position"), indices.shape,
                         [&](const Exprs& i) { return te_position(indices(i), extent); });
}

template <CombinerKind kind>
Tensors te_scatter(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Scatter s = scatter_of(call);
  const te::Tensor at = te_positions(call, builder, inputs[1], s.extent);
  const bool direct = math_type(inputs[0].type) == inputs[0].type;
  const auto element = [&](const Exprs& i, const Exprs& r) {
    const Exprs from = joined(Exprs(i.begin(), i.begin() + s.axis), r, std::span(i).subspan(s.axis + 1));
    const Expr value = read(inputs[0], from);
    return select(at(r) == i[s.axis], value, te::identity_of(kind, value.type()));
  };
  const std::string name = tensor_name(call, direct ? "" : "acc");
  const te::Tensor all = at.shape.empty() ? builder.compute(name, s.y, [&](const Exprs& i) { return element(i, {}); })
                                          : builder.reduce(name, s.y, at.shape, kind, element);
  return {cast_output(call, builder, all, inputs[0].type)};
}

template <CombinerKind kind>
void ref_scatter(const OpCall& call, Refs inputs, RefTensor& y) {
  const Scatter s = scatter_of(call);
  const DataType type = y.type.type;
  const Expr neutral = te::identity_of(kind, type);
  std::ranges::fill(y.floats, neutral->number);
  std::ranges::fill(y.ints, neutral->value);
  const RefTensor& x = inputs[0];
  const int64_t inner = row_major_strides(s.y)[s.axis];
  const int64_t outer = num_elements(Shape(s.y.begin(), s.y.begin() + s.axis));
  size_t from = 0;
  for (int64_t a = 0; a < outer; ++a) {
    for (const int64_t index : inputs[1].ints) {
      const int64_t first = (a * s.extent + position(index, s.extent)) * inner;
      for (int64_t to = first; to < first + inner; ++to, ++from) {
        if (y.is_float()) {
          y.floats[to] = combined(kind, y.floats[to], x.floats[from]);
        } else {
          y.ints[to] = combined(kind, type, y.ints[to], x.ints[from]);
        }
      }
    }
  }
  if (!y.is_float()) y.round_to_type();
}

template <CombinerKind kind>
OpDef scatter_op(std::string_view name) {
  return {name, OpClass::kReduction, infer_scatter, te_scatter<kind>, filled<infer_scatter, ref_scatter<kind>>, {2, 2}};
}

// ---- scatter_elements_sum

struct ScatterElements {
  int64_t axis;
  Shape y;
};

ScatterElements elements_of(const OpCall& call) {
  const Shape &x = call.inputs[0].shape, &y = call.node.ints_attr("shape");
  const int64_t axis = axis_of(call, 0);
  bool fits = call.inputs[1].shape == x && y.size() == x.size();
  for (size_t d = 0; fits && d < x.size(); ++d) fits = static_cast<int64_t>(d) == axis ? y[d] > 0 : x[d] <= y[d];
  require(call, fits, "{} with indices {} does not fit shape {}", to_string(call.inputs[0]), to_string(call.inputs[1]),
          to_string(y));
  return {axis, y};
}

Types infer_elements(const OpCall& call) {
  require_float(call, 0);
  require_indices(call, 1);
  return {{call.inputs[0].type, elements_of(call).y}};
}

Tensors te_elements(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const ScatterElements s = elements_of(call);
  const te::Tensor& x = inputs[0];
  const te::Tensor at = te_positions(call, builder, inputs[1], s.y[s.axis]);
  const bool direct = math_type(x.type) == x.type;
  const auto element = [&](const Exprs& i, const Exprs& r) {
    Exprs from = i, exist;
    from[s.axis] = r[0];
    for (size_t d = 0; d < i.size(); ++d) {
      if (static_cast<int64_t>(d) != s.axis && x.shape[d] < s.y[d]) exist.push_back(i[d] < Expr(x.shape[d]));
    }
    const Expr value = read(x, from), zero = imm(value.type(), 0);
    return select(all_of(exist), select(at(from) == i[s.axis], value, zero), zero);
  };
  const te::Tensor sum =
      builder.reduce(tensor_name(call, direct ? "" : "acc"), s.y, {x.shape[s.axis]}, te::CombinerKind::kSum, element);
  return {cast_output(call, builder, sum, x.type)};
}

void ref_elements(const OpCall& call, Refs inputs, RefTensor& y) {
  const ScatterElements s = elements_of(call);
  const Shape strides = row_major_strides(s.y);
  size_t from = 0;
  for_each_index(inputs[0].type.shape, [&](std::vector<int64_t> index) {
    index[s.axis] = position(inputs[1].ints[from], s.y[s.axis]);
    y.floats[offset_of(index, strides)] += inputs[0].floats[from++];
  });
}

}  // namespace

std::vector<OpDef> scatter_ops() {
  return {scatter_op<CombinerKind::kSum>("scatter_sum"),
          scatter_op<CombinerKind::kProd>("scatter_prod"),
          scatter_op<CombinerKind::kMin>("scatter_min"),
          scatter_op<CombinerKind::kMax>("scatter_max"),
          {"scatter_elements_sum",
           OpClass::kReduction,
           infer_elements,
           te_elements,
           filled<infer_elements, ref_elements>,
           {2, 2}}};
}

}  // namespace tw::ops
