#include "ops/common.h"

#include <cmath>

#include "expr/tf32.h"

namespace tw::ops {

void require_float(const OpCall& call, size_t input) {
  require(call, call.inputs[input].type.is_float(), "input {} is {}, expected a float type", input,
          to_string(call.inputs[input]));
}

void require_same_type(const OpCall& call, size_t a, size_t b) {
  require(call, call.inputs[a].type == call.inputs[b].type, "input {} is {} but input {} is {}", a,
          to_string(call.inputs[a]), b, to_string(call.inputs[b]));
}

void require_indices(const OpCall& call, size_t input) {
  const DataType type = call.inputs[input].type;
  require(call, type == DataType::i32() || type == DataType::i64(), "the indices are {}, expected i32 or i64",
          to_string(call.inputs[input]));
}

void require_bias(const OpCall& call, int64_t channels, size_t bias) {
  if (!call.has(bias)) return;
  require_same_type(call, 0, bias);
  require(call, call.inputs[bias].shape == Shape{channels}, "the bias is {}, expected {} elements",
          to_string(call.inputs[bias]), channels);
}

int64_t normalize_axis(const OpCall& call, int64_t axis, size_t rank) {
  const auto r = static_cast<int64_t>(rank);
  require(call, axis >= -r && axis < r, "axis {} does not exist in a tensor of rank {}", axis, rank);
  return axis < 0 ? axis + r : axis;
}

int64_t axis_of(const OpCall& call, int64_t fallback) {
  return normalize_axis(call, call.node.int_attr_or("axis", fallback), call.inputs[0].shape.size());
}

std::vector<int64_t> reduced_axes(const OpCall& call, size_t rank) {
  if (!call.node.has_attr("axes")) return sequence(rank);
  std::vector<int64_t> axes;
  for (int64_t axis : call.node.ints_attr("axes")) axes.push_back(normalize_axis(call, axis, rank));
  std::ranges::sort(axes);
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return axes;
}

DataType math_type(DataType type) {
  return type == DataType::f16() || type == DataType::bf16() ? DataType::f32() : type;
}

std::string tensor_name(const OpCall& call, const std::string& suffix) {
  return suffix.empty() ? call.node.op : call.node.op + "_" + suffix;
}

Expr read(const te::Tensor& t, Exprs indices) { return cast(math_type(t.type), t(std::move(indices))); }

MultiplyFn product_of(const OpCall& call) {
  if (!call.node.has_attr("operands")) return [](const Expr& a, const Expr& b) { return a * b; };
  require(call, call.node.string_attr("operands") == "tf32" && call.inputs[0].type == DataType::f32(),
          "operands {} as '{}', expected f32 as 'tf32'", to_string(call.inputs[0]), call.node.string_attr("operands"));
  return [](const Expr& a, const Expr& b) { return to_tf32(a) * to_tf32(b); };
}

const std::vector<double>& multiplied(const OpCall& call, const RefTensor& x, std::vector<double>& rounded) {
  if (!call.node.has_attr("operands")) return x.floats;
  for (const double value : x.floats) rounded.push_back(to_tf32(static_cast<float>(value)));
  return rounded;
}

Exprs broadcast_indices(const Exprs& i, const Shape& in) {
  const size_t skip = i.size() - in.size();
  return by_index(in.size(), [&](size_t d) { return in[d] == 1 ? Expr(0) : i[skip + d]; });
}

Expr te_position(const Expr& index, int64_t extent) {
  const Expr i = cast(DataType::i64(), index);
  return min(max(select(i < Expr(0), i + Expr(extent), i), Expr(0)), Expr(std::max<int64_t>(extent - 1, 0)));
}

int64_t position(int64_t index, int64_t extent) {
  return std::clamp<int64_t>(index < 0 ? index + extent : index, 0, std::max<int64_t>(extent - 1, 0));
}

te::Tensor cast_output(const OpCall& call, te::Builder& builder, const te::Tensor& t, DataType type) {
  if (t.type == type) return t;
  return builder.compute(tensor_name(call), t.shape, [&](const Exprs& i) { return cast(type, t(i)); });
}

Expr all_of(const Exprs& conditions) {
  Expr result = int_imm(1, DataType::boolean());
  for (const Expr& condition : conditions) result = result && condition;
  return result;
}

Expr inside(const Expr& e, int64_t extent, int64_t low, int64_t high) {
  Exprs conditions;
  if (low < 0) conditions.push_back(Expr(0) <= e);
  if (high >= extent) conditions.push_back(e < Expr(extent));
  return all_of(conditions);
}

int64_t offset_of(const std::vector<int64_t>& index, const Shape& strides) {
  int64_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d) offset += index[d] * strides[d];
  return offset;
}

Shape broadcast_strides(const Shape& in, const Shape& out) {
  const Shape dense = row_major_strides(in);
  Shape strides(out.size(), 0);
  for (size_t d = 0; d < in.size(); ++d) strides[out.size() - in.size() + d] = in[d] == 1 ? 0 : dense[d];
  return strides;
}

std::vector<int64_t> offsets(const Shape& shape, const Shape& strides) {
  std::vector<int64_t> result{0};
  for (size_t d = 0; d < shape.size(); ++d) {
    std::vector<int64_t> next;
    next.reserve(result.size() * shape[d]);
    for (int64_t base : result) {
      for (int64_t i = 0; i < shape[d]; ++i) next.push_back(base + i * strides[d]);
    }
    result = std::move(next);
  }
  return result;
}

int64_t combined(te::CombinerKind kind, DataType type, int64_t a, int64_t b) {
  const auto p = static_cast<uint64_t>(a), q = static_cast<uint64_t>(b);
  const bool less = type.scalar() == ScalarType::kU64 ? p < q : a < b;
  if (kind == te::CombinerKind::kMax) return less ? b : a;
  if (kind == te::CombinerKind::kMin) return less ? a : b;
  return static_cast<int64_t>(kind == te::CombinerKind::kProd ? p * q : p + q);
}

double combined(te::CombinerKind kind, double a, double b) {
  if (kind == te::CombinerKind::kSum) return a + b;
  if (kind == te::CombinerKind::kProd) return a * b;
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b;
  return kind == te::CombinerKind::kMax ? std::max(a, b) : std::min(a, b);
}

}  // namespace tw::ops
