// Reads at computed indices (i32 or i64). An index of -n counts from the end; what lies outside then is clamped.
//
// gather(x, indices)           attribute axis (0): y[a.., j.., b..] = x[a.., indices[j..], b..]
// gather_elements(x, indices)  attribute axis (0): y[i] = x[i with indices[i] at the axis]
// gather_nd(x, indices)        attribute batch_dims (0): the last axis of indices holds index tuples
// one_hot(indices, values)     attributes depth, axis (-1): y = values[1] where the new axis is the index, else
// values[0];
//                              an index outside [-depth, depth) gives values[0] only. Indices may be any number
#include <algorithm>

#include "ops/common.h"
#include "ops/families.h"

namespace tw::ops {
namespace {

// ---- gather

Types infer_gather(const OpCall& call) {
  require_indices(call, 1);
  const Shape& x = call.inputs[0].shape;
  const Shape& indices = call.inputs[1].shape;
  const int64_t axis = axis_of(call, 0);
  require(call, x[axis] > 0 || num_elements(indices) == 0, "axis {} of {} has no elements", axis,
          to_string(call.inputs[0]));
  const Shape before(x.begin(), x.begin() + axis);
  return {{call.inputs[0].type, joined(before, indices, std::span(x).subspan(axis + 1))}};
}

Tensors te_gather(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const int64_t axis = axis_of(call, 0);
  const auto rank = static_cast<int64_t>(inputs[1].shape.size());
  return {builder.compute(tensor_name(call), infer_gather(call)[0].shape, [&](const Exprs& i) {
    Exprs at(i.begin(), i.begin() + axis);
    at.push_back(te_position(inputs[1](Exprs(i.begin() + axis, i.begin() + axis + rank)), inputs[0].shape[axis]));
    return inputs[0](joined(at, std::span(i).subspan(axis + rank)));
  })};
}

void ref_gather(const OpCall& call, Refs inputs, RefTensor& y) {
  const RefTensor& x = inputs[0];
  const int64_t axis = axis_of(call, 0);
  const int64_t extent = x.type.shape[axis];
  const int64_t inner = row_major_strides(x.type.shape)[axis];
  const int64_t outer = num_elements(Shape(x.type.shape.begin(), x.type.shape.begin() + axis));
  int64_t to = 0;
  for (int64_t a = 0; a < outer; ++a) {
    for (int64_t index : inputs[1].ints) {
      const int64_t from = (a * extent + position(index, extent)) * inner;
      for (int64_t b = 0; b < inner; ++b) copy_element(y, to++, x, from + b);
    }
  }
}

// ---- gather_elements

Types infer_elements(const OpCall& call) {
  require_indices(call, 1);
  const Shape& x = call.inputs[0].shape;
  const Shape& indices = call.inputs[1].shape;
  const int64_t axis = axis_of(call, 0);
  bool fits = indices.size() == x.size();
  for (size_t d = 0; fits && d < x.size(); ++d) fits = static_cast<int64_t>(d) == axis || indices[d] <= x[d];
  require(call, fits, "indices {} do not fit {}", to_string(call.inputs[1]), to_string(call.inputs[0]));
  require(call, x[axis] > 0 || num_elements(indices) == 0, "axis {} of {} has no elements", axis,
          to_string(call.inputs[0]));
  return {{call.inputs[0].type, indices}};
}

Tensors te_elements(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const int64_t axis = axis_of(call, 0);
  return {builder.compute(tensor_name(call), inputs[1].shape, [&](const Exprs& i) {
    Exprs at = i;
    at[axis] = te_position(inputs[1](i), inputs[0].shape[axis]);
    return inputs[0](at);
  })};
}

std::vector<RefTensor> ref_elements(const OpCall& call, Refs inputs) {
  const RefTensor& x = inputs[0];
  const int64_t axis = axis_of(call, 0);
  const Shape strides = row_major_strides(x.type.shape);
  int64_t next = 0;
  return {moved(infer_elements(call)[0], x, [&](std::vector<int64_t> index) {
    index[axis] = position(inputs[1].ints[next++], x.type.shape[axis]);
    return offset_of(index, strides);
  })};
}

// ---- gather_nd

struct GatherNd {
  int64_t batch, tuple;  // leading axes in common; axes that a tuple addresses
  Shape out;
};
GatherNd nd_of(const OpCall& call) {
  const Shape& x = call.inputs[0].shape;
  const Shape& indices = call.inputs[1].shape;
  const int64_t batch = call.node.int_attr_or("batch_dims", 0);
  require(call,
          !indices.empty() && batch >= 0 && batch < static_cast<int64_t>(indices.size()) &&
              batch + indices.back() <= static_cast<int64_t>(x.size()),
          "batch_dims {} with indices {} on {}", batch, to_string(call.inputs[1]), to_string(call.inputs[0]));
  require(call, std::equal(indices.begin(), indices.begin() + batch, x.begin()),
          "indices {} and {} differ in the first {} axes", to_string(call.inputs[1]), to_string(call.inputs[0]), batch);
  const Shape tuples(indices.begin(), indices.end() - 1);
  return {batch, indices.back(), joined(tuples, std::span(x).subspan(batch + indices.back()))};
}

Types infer_nd(const OpCall& call) {
  require_indices(call, 1);
  const GatherNd nd = nd_of(call);
  require(call, call.inputs[0].elements() > 0 || num_elements(nd.out) == 0, "{} has no elements",
          to_string(call.inputs[0]));
  return {{call.inputs[0].type, nd.out}};
}

Tensors te_nd(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const GatherNd nd = nd_of(call);
  const auto lead = static_cast<std::ptrdiff_t>(inputs[1].shape.size()) - 1;
  return {builder.compute(tensor_name(call), nd.out, [&](const Exprs& i) {
    Exprs at(i.begin(), i.begin() + nd.batch);
    for (int64_t t = 0; t < nd.tuple; ++t) {
      Exprs index(i.begin(), i.begin() + lead);
      index.push_back(Expr(t));
      at.push_back(te_position(inputs[1](index), inputs[0].shape[nd.batch + t]));
    }
    return inputs[0](joined(at, std::span(i).subspan(lead)));
  })};
}

std::vector<RefTensor> ref_nd(const OpCall& call, Refs inputs) {
  const GatherNd nd = nd_of(call);
  const RefTensor& x = inputs[0];
  const Shape strides = row_major_strides(x.type.shape);
  const Shape index_strides = row_major_strides(inputs[1].type.shape);
  const size_t lead = inputs[1].type.shape.size() - 1;
  return {moved(infer_nd(call)[0], x, [&](const std::vector<int64_t>& index) {
    int64_t tuple = 0, from = 0;
    for (size_t d = 0; d < lead; ++d) tuple += index[d] * index_strides[d];
    for (int64_t d = 0; d < nd.batch; ++d) from += index[d] * strides[d];
    for (int64_t t = 0; t < nd.tuple; ++t)
      from += position(inputs[1].ints[tuple + t], x.type.shape[nd.batch + t]) * strides[nd.batch + t];
    for (size_t d = lead; d < index.size(); ++d)
      from += index[d] * strides[nd.batch + nd.tuple + static_cast<int64_t>(d - lead)];
    return from;
  })};
}

// ---- one_hot

int64_t hot_axis(const OpCall& call) {
  return normalize_axis(call, call.node.int_attr_or("axis", -1), call.inputs[0].shape.size() + 1);
}

Types infer_one_hot(const OpCall& call) {
  require(call, !call.inputs[0].type.is_bool() && call.inputs[1].shape == Shape{2}, "indices {} and values {}",
          to_string(call.inputs[0]), to_string(call.inputs[1]));
  const int64_t depth = call.node.int_attr("depth");
  require(call, depth >= 0, "depth {}", depth);
  Shape shape = call.inputs[0].shape;
  shape.insert(shape.begin() + hot_axis(call), depth);
  return {{call.inputs[1].type, shape}};
}

Tensors te_one_hot(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const int64_t axis = hot_axis(call);
  const Expr depth(call.node.int_attr("depth"));
  return {builder.compute(tensor_name(call), infer_one_hot(call)[0].shape, [&](const Exprs& i) {
    Exprs at = i;
    at.erase(at.begin() + axis);
    const Expr index = cast(DataType::i64(), inputs[0](at));
    const Expr hot = select(index < Expr(0), index + depth, index) == i[axis];
    return select(hot, inputs[1]({Expr(1)}), inputs[1]({Expr(0)}));
  })};
}

std::vector<RefTensor> ref_one_hot(const OpCall& call, Refs inputs) {
  const int64_t axis = hot_axis(call);
  const int64_t depth = call.node.int_attr("depth");
  const Shape strides = row_major_strides(inputs[0].type.shape);
  return {moved(infer_one_hot(call)[0], inputs[1], [&](std::vector<int64_t> index) -> int64_t {
    const int64_t here = index[axis];
    index.erase(index.begin() + axis);
    const auto wanted = static_cast<int64_t>(inputs[0].at(offset_of(index, strides)));
    return (wanted < 0 ? wanted + depth : wanted) == here ? 1 : 0;
  })};
}

}  // namespace

std::vector<OpDef> gather_ops() {
  constexpr OpClass kMoves = OpClass::kInjective;
  return {{"gather", kMoves, infer_gather, te_gather, filled<infer_gather, ref_gather>, {2, 2}},
          {"gather_elements", kMoves, infer_elements, te_elements, ref_elements, {2, 2}},
          {"gather_nd", kMoves, infer_nd, te_nd, ref_nd, {2, 2}},
          {"one_hot", kMoves, infer_one_hot, te_one_hot, ref_one_hot, {2, 2}}};
}

}  // namespace tw::ops
