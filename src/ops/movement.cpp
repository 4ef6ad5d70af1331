// concat(x0, x1, ..) along attribute axis; all inputs have one type and the other extents in common.
// pad(x): attributes pads ([begin.., end..], one pair for each axis; negative ones cut), mode (string):
//   "constant" (default) with value (float or int, 0), "edge" repeats the border, "reflect" mirrors without repeating
//   the border, "wrap" continues periodically.
#include "ops/common.h"
#include "ops/families.h"
#include "support/math.h"

namespace tw::ops {
namespace {

// ---- concat

int64_t concat_axis(const OpCall& call) {
  return normalize_axis(call, call.node.int_attr("axis"), call.inputs[0].shape.size());
}

Types infer_concat(const OpCall& call) {
  require(call, !call.inputs.empty(), "no inputs");
  for (size_t k = 0; k < call.inputs.size(); ++k) require(call, call.has(k), "input {} is missing", k);
  TensorType y = call.inputs[0];
  const int64_t axis = concat_axis(call);
  for (size_t k = 1; k < call.inputs.size(); ++k) {
    require_same_type(call, 0, k);
    Shape other = call.inputs[k].shape;
    require(call, other.size() == y.shape.size(), "input {} is {}, input 0 is {}", k, to_string(call.inputs[k]),
            to_string(call.inputs[0]));
    const int64_t extent = other[axis];
    other[axis] = y.shape[axis];
    require(call, other == y.shape, "input {} is {}, which does not continue {} along axis {}", k,
            to_string(call.inputs[k]), to_string(call.inputs[0]), axis);
    y.shape[axis] += extent;
  }
  return {y};
}

Tensors te_concat(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const TensorType y = infer_concat(call)[0];
  const int64_t axis = concat_axis(call);
  return {builder.compute(tensor_name(call), y.shape, [&](const Exprs& i) {
    Expr value;
    int64_t end = y.shape[axis];
    for (size_t k = inputs.size(); k-- > 0;) {
      const int64_t start = end - inputs[k].shape[axis];
      if (start == end && y.shape[axis] > 0) continue;
      Exprs at = i;
      at[axis] = i[axis] - Expr(start);
      value = value ? select(i[axis] < Expr(end), inputs[k](at), value) : inputs[k](at);
      end = start;
    }
    return value;
  })};
}

void ref_concat(const OpCall& call, Refs inputs, RefTensor& y) {
  const int64_t axis = concat_axis(call);
  const int64_t row = row_major_strides(y.type.shape)[axis] * y.type.shape[axis];
  int64_t start = 0;
  for (const RefTensor& x : inputs) {
    const int64_t piece = row_major_strides(x.type.shape)[axis] * x.type.shape[axis];
    for (int64_t i = 0; i < x.type.elements(); ++i) copy_element(y, i / piece * row + start + i % piece, x, i);
    start += piece;
  }
}

// ---- pad

enum class PadMode : uint8_t { kConstant, kEdge, kReflect, kWrap };

PadMode mode_of(const OpCall& call) {
  const std::string mode = call.node.string_attr_or("mode", "constant");
  if (mode == "constant") return PadMode::kConstant;
  if (mode == "edge") return PadMode::kEdge;
  if (mode == "reflect") return PadMode::kReflect;
  require(call, mode == "wrap", "unknown mode '{}'", mode);
  return PadMode::kWrap;
}

Types infer_pad(const OpCall& call) {
  TensorType y = call.inputs[0];
  const auto& pads = call.node.ints_attr("pads");
  const size_t rank = y.shape.size();
  require(call, pads.size() == 2 * rank, "{} pads for {}", pads.size(), to_string(y));
  const PadMode mode = mode_of(call);
  for (size_t d = 0; d < rank; ++d) {
    const bool grows = pads[d] > 0 || pads[rank + d] > 0;
    require(call, !grows || mode == PadMode::kConstant || y.shape[d] > 0, "axis {} of {} has no elements to repeat", d,
            to_string(y));
    y.shape[d] += pads[d] + pads[rank + d];
    require(call, y.shape[d] >= 0, "pads {} cut more than {} has", to_string(pads), to_string(call.inputs[0]));
  }
  return {y};
}

Expr fill_of(const OpCall& call, DataType type) {
  if (!call.node.has_attr("value")) return imm(type, 0);
  const int64_t* whole = std::get_if<int64_t>(&call.node.attrs.at("value"));
  if (whole && !type.is_float()) return int_imm(*whole, type);
  return imm(type, whole ? static_cast<double>(*whole) : call.node.float_attr("value"));
}

// Position in [0, n) of position p, which runs from `low` to `high`.
Expr source_index(PadMode mode, const Expr& p, int64_t n, int64_t low, int64_t high) {
  if (low >= 0 && high < n) return p;
  if (mode == PadMode::kEdge) return min(max(p, Expr(0)), Expr(n - 1));
  if (mode == PadMode::kWrap) return floor_mod(p, Expr(n));
  if (n == 1) return Expr(0);
  const int64_t period = 2 * (n - 1);
  const bool once = low > -n && high <= period;
  const Expr q = once ? max(p, Expr(0) - p) : floor_mod(p, Expr(period));
  return min(q, Expr(period) - q);
}

Tensors te_pad(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const te::Tensor& x = inputs[0];
  const TensorType y = infer_pad(call)[0];
  const auto& pads = call.node.ints_attr("pads");
  const PadMode mode = mode_of(call);
  return {builder.compute(tensor_name(call), y.shape, [&](const Exprs& i) {
    Exprs at, conditions;
    for (size_t d = 0; d < i.size(); ++d) {
      const Expr p = i[d] - Expr(pads[d]);
      const int64_t low = -pads[d], high = y.shape[d] - 1 - pads[d];
      if (mode == PadMode::kConstant) conditions.push_back(inside(p, x.shape[d], low, high));
      at.push_back(mode == PadMode::kConstant ? p : source_index(mode, p, x.shape[d], low, high));
    }
    return select(all_of(conditions), x(at), fill_of(call, x.type));
  })};
}

int64_t source_position(PadMode mode, int64_t p, int64_t n) {
  if (p >= 0 && p < n) return p;
  switch (mode) {
    case PadMode::kConstant:
      return -1;
    case PadMode::kEdge:
      return p < 0 ? 0 : n - 1;
    case PadMode::kWrap:
      return floor_mod(p, n);
    case PadMode::kReflect:
      break;
  }
  while (n > 1 && (p < 0 || p >= n)) p = p < 0 ? -p : 2 * (n - 1) - p;
  return n > 1 ? p : 0;
}

void ref_pad(const OpCall& call, Refs inputs, RefTensor& y) {
  const RefTensor& x = inputs[0];
  const auto& pads = call.node.ints_attr("pads");
  const Expr fill = fill_of(call, x.type.type);
  int64_t to = 0;
  for_each_index(y.type.shape, [&](const std::vector<int64_t>& index) {
    int64_t from = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      const int64_t p = source_position(mode_of(call), index[d] - pads[d], x.type.shape[d]);
      from = from < 0 || p < 0 ? -1 : from * x.type.shape[d] + p;
    }
    if (from >= 0) {
      copy_element(y, to, x, from);
    } else if (y.is_float()) {
      y.floats[to] = fill->number;
    } else {
      y.ints[to] = fill->value;
    }
    ++to;
  });
}

}  // namespace

std::vector<OpDef> movement_ops() {
  return {{"concat", OpClass::kInjective, infer_concat, te_concat, filled<infer_concat, ref_concat>, {0, SIZE_MAX}},
          {"pad", OpClass::kInjective, infer_pad, te_pad, filled<infer_pad, ref_pad>}};
}

}  // namespace tw::ops
