// Writes at computed indices (i32 or i64; an index of -n counts from the end, others outside are left out).
//
// scatter_elements(x, indices, updates)  attributes axis (0), reduction: y = x, then for every position j of indices,
// in
//                                        row-major order, y[j with indices[j] at the axis] = updates[j]
// scatter_nd(x, indices, updates)        attribute reduction: the last axis of indices holds index tuples
// reduction (string): "none" (default: the last update stands), "add", "mul", "max", "min" with what is there.
// As a te every element searches the updates that may hit it: along the axis, or all tuples of scatter_nd.
#include <algorithm>
#include <cmath>

#include "ops/common.h"
#include "ops/families.h"

namespace tw::ops {
namespace {

enum class Mode : uint8_t { kNone, kAdd, kMul, kMax, kMin };

Mode mode_of(const OpCall& call) {
  constexpr std::string_view kNames[] = {"none", "add", "mul", "max", "min"};  // of Mode, in its order
  const std::string name = call.node.string_attr_or("reduction", "none");
  const auto* found = std::ranges::find(kNames, name);
  require(call, found != std::end(kNames), "unknown reduction '{}'", name);
  return static_cast<Mode>(found - std::begin(kNames));
}

void require_operands(const OpCall& call) {
  require_same_type(call, 0, 2);
  require_indices(call, 1);
  require(call, mode_of(call) == Mode::kNone || !call.inputs[0].type.is_bool(), "reduction of bool");
}

Types infer_elements(const OpCall& call) {
  require_operands(call);
  const Shape& x = call.inputs[0].shape;
  const Shape& indices = call.inputs[1].shape;
  const int64_t axis = axis_of(call, 0);
  bool fits = indices.size() == x.size() && indices == call.inputs[2].shape;
  for (size_t d = 0; fits && d < x.size(); ++d) fits = static_cast<int64_t>(d) == axis || indices[d] <= x[d];
  require(call, fits, "indices {} and updates {} do not fit {}", to_string(call.inputs[1]), to_string(call.inputs[2]),
          to_string(call.inputs[0]));
  return {call.inputs[0]};
}

Types infer_nd(const OpCall& call) {
  require_operands(call);
  const Shape& x = call.inputs[0].shape;
  const Shape& indices = call.inputs[1].shape;
  require(call, !indices.empty() && indices.back() <= static_cast<int64_t>(x.size()), "indices {} on {}",
          to_string(call.inputs[1]), to_string(call.inputs[0]));
  const Shape updates = joined(Shape(indices.begin(), indices.end() - 1), std::span(x).subspan(indices.back()));
  require(call, call.inputs[2].shape == updates, "updates {}, expected {}", to_string(call.inputs[2]),
          to_string(updates));
  return {call.inputs[0]};
}

// What an output element meets: the updates r of `shape` at update_indices(i, r), where hits(i, r) holds.
struct Search {
  Shape shape;
  std::function<Expr(const Exprs& i, const Exprs& r)> hits;
  std::function<Exprs(const Exprs& i, const Exprs& r)> update_indices;
};

// The position of the last hit, or -1; then that update.
Tensors te_last(const OpCall& call, te::Builder& builder, const Tensors& inputs, const Search& search) {
  const te::Tensor& x = inputs[0];
  const Shape strides = row_major_strides(search.shape);
  const te::Tensor last = builder.reduce(tensor_name(call, "last"), x.shape, search.shape, te::CombinerKind::kMax,
                                         [&](const Exprs& i, const Exprs& r) {
                                           Expr position(0);
                                           for (size_t d = 0; d < r.size(); ++d)
                                             position = position + r[d] * Expr(strides[d]);
                                           return select(search.hits(i, r), position, Expr(-1));
                                         });
  return {builder.compute(tensor_name(call), x.shape, [&](const Exprs& i) {
    Exprs r;
    for (size_t d = 0; d < search.shape.size(); ++d) {
      const Expr quotient = floor_div(last(i), Expr(strides[d]));
      r.push_back(d == 0 ? quotient : floor_mod(quotient, Expr(search.shape[d])));
    }
    return select(Expr(0) <= last(i), inputs[2](search.update_indices(i, r)), x(i));
  })};
}

Tensors te_scatter(const OpCall& call, te::Builder& builder, const Tensors& inputs, const Search& search) {
  const te::Tensor& x = inputs[0];
  const Mode mode = mode_of(call);
  // Nothing to search: with no updates there is nothing the reduction could read.
  if (num_elements(inputs[2].shape) == 0)
    return {builder.compute(tensor_name(call), x.shape, [&](const Exprs& i) { return x(i); })};
  if (mode == Mode::kNone) return te_last(call, builder, inputs, search);
  constexpr te::CombinerKind kKinds[] = {te::CombinerKind::kSum, te::CombinerKind::kSum, te::CombinerKind::kProd,
                                         te::CombinerKind::kMax, te::CombinerKind::kMin};
  const te::CombinerKind kind = kKinds[static_cast<size_t>(mode)];
  const te::Tensor met =
      builder.reduce(tensor_name(call, "met"), x.shape, search.shape, kind, [&](const Exprs& i, const Exprs& r) {
        const Expr value = read(inputs[2], search.update_indices(i, r));
        return select(search.hits(i, r), value, te::identity_of(kind, value.type()));
      });
  return {builder.compute(tensor_name(call), x.shape,
                          [&](const Exprs& i) { return cast(x.type, binary(te::op_of(kind), read(x, i), met(i))); })};
}

Expr position_of(const Expr& index, int64_t extent) {
  const Expr i = cast(DataType::i64(), index);
  return select(i < Expr(0), i + Expr(extent), i);
}

Tensors te_elements(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const int64_t axis = axis_of(call, 0);
  const Shape& shape = inputs[1].shape;
  const auto at = [&, axis](const Exprs& i, const Exprs& r) {
    Exprs j = i;
    j[axis] = r[0];
    return j;
  };
  const auto hits = [&, axis](const Exprs& i, const Exprs& r) {
    Exprs within;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (static_cast<int64_t>(d) != axis) within.push_back(inside(i[d], shape[d], 0, inputs[0].shape[d] - 1));
    }
    // The select keeps the read inside the indices.
    const Expr hit = position_of(inputs[1](at(i, r)), inputs[0].shape[axis]) == i[axis];
    return select(all_of(within), hit, int_imm(0, DataType::boolean()));
  };
  return te_scatter(call, builder, inputs, {{shape[axis]}, hits, at});
}

Tensors te_nd(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Shape& indices = inputs[1].shape;
  const int64_t tuple = indices.back();
  const auto hits = [&, tuple](const Exprs& i, const Exprs& r) {
    Exprs equal;
    for (int64_t t = 0; t < tuple; ++t) {
      Exprs at = r;
      at.push_back(Expr(t));
      equal.push_back(position_of(inputs[1](at), inputs[0].shape[t]) == i[t]);
    }
    return all_of(equal);
  };
  const auto at = [tuple](const Exprs& i, const Exprs& r) { return joined(r, std::span(i).subspan(tuple)); };
  // Without leading axes there is one update; a reduction axis of extent 1 stands for it.
  if (indices.size() == 1) {
    const auto hits_one = [&](const Exprs& i, const Exprs&) { return hits(i, {}); };
    const auto at_one = [&](const Exprs& i, const Exprs&) { return at(i, {}); };
    return te_scatter(call, builder, inputs, {{1}, hits_one, at_one});
  }
  return te_scatter(call, builder, inputs, {Shape(indices.begin(), indices.end() - 1), hits, at});
}

// ---- References.

void apply_update(RefTensor& y, int64_t to, const RefTensor& updates, int64_t from, Mode mode) {
  if (mode == Mode::kNone) return copy_element(y, to, updates, from);
  if (!y.is_float()) {
    const auto a = y.ints[to], b = updates.ints[from];
    const auto p = static_cast<uint64_t>(a), q = static_cast<uint64_t>(b);
    const int64_t result = mode == Mode::kAdd   ? static_cast<int64_t>(p + q)
                           : mode == Mode::kMul ? static_cast<int64_t>(p * q)
                           : mode == Mode::kMax ? std::max(a, b)
                                                : std::min(a, b);
    y.ints[to] = graph::wrap_int(result, y.type.type);
    return;
  }
  const double a = y.floats[to], b = updates.floats[from];
  const bool nan = std::isnan(a) || std::isnan(b);
  y.floats[to] = mode == Mode::kAdd   ? a + b
                 : mode == Mode::kMul ? a * b
                 : nan                ? NAN
                 : mode == Mode::kMax ? std::max(a, b)
                                      : std::min(a, b);
}

std::vector<RefTensor> ref_elements(const OpCall& call, Refs inputs) {
  RefTensor y = inputs[0];
  const int64_t axis = axis_of(call, 0);
  const int64_t extent = y.type.shape[axis];
  const Shape strides = row_major_strides(y.type.shape);
  int64_t from = 0;
  for_each_index(inputs[1].type.shape, [&](std::vector<int64_t> index) {
    const int64_t wanted = inputs[1].ints[from];
    index[axis] = wanted < 0 ? wanted + extent : wanted;
    if (index[axis] >= 0 && index[axis] < extent)
      apply_update(y, offset_of(index, strides), inputs[2], from, mode_of(call));
    ++from;
  });
  return {std::move(y)};
}

std::vector<RefTensor> ref_nd(const OpCall& call, Refs inputs) {
  RefTensor y = inputs[0];
  const int64_t tuple = inputs[1].type.shape.back();
  const Shape strides = row_major_strides(y.type.shape);
  const int64_t piece = num_elements(Shape(y.type.shape.begin() + tuple, y.type.shape.end()));
  const int64_t count = piece == 0 ? 0 : inputs[2].type.elements() / piece;
  for (int64_t u = 0; u < count; ++u) {
    int64_t to = 0;
    for (int64_t t = 0; t < tuple && to >= 0; ++t) {
      const int64_t wanted = inputs[1].ints[u * tuple + t];
      const int64_t index = wanted < 0 ? wanted + y.type.shape[t] : wanted;
      to = index < 0 || index >= y.type.shape[t] ? -1 : to + index * strides[t];
    }
    for (int64_t k = 0; to >= 0 && k < piece; ++k) apply_update(y, to + k, inputs[2], u * piece + k, mode_of(call));
  }
  return {std::move(y)};
}

}  // namespace

std::vector<OpDef> scatter_ops() {
  return {{"scatter_elements", OpClass::kReduction, infer_elements, te_elements, ref_elements, {3, 3}},
          {"scatter_nd", OpClass::kReduction, infer_nd, te_nd, ref_nd, {3, 3}}};
}

}  // namespace tw::ops
