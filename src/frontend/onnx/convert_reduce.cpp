// Reductions over axes, arg-reductions and the losses made of them.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "frontend/onnx/converters.h"

namespace tw::frontend {
namespace {

using graph::ValueId;

struct Reduction {
  std::vector<int64_t> axes;
  KeepDims keep = KeepDims::kYes;
  bool identity = false;  // no axes, and that means none instead of all
};

// Axes are an attribute before opset 18 (ReduceSum: 13), an optional input after.
Reduction reduction_of(NodeContext& c) {
  Reduction r;
  const bool input_axes = c.opset() >= (c.op() == "ReduceSum" ? 13 : 18);
  r.keep = c.int_or("keepdims", 1) != 0 ? KeepDims::kYes : KeepDims::kNo;
  std::vector<int64_t> axes;
  if (!input_axes) axes = c.ints_or("axes", {});
  if (input_axes && c.has(1)) axes = c.const_ints(1, "axes");
  r.identity = axes.empty() && input_axes && c.int_or("noop_with_empty_axes", 0) != 0;
  r.axes = normalize_axes(std::move(axes), c.rank(0));
  if (r.axes.empty() && !r.identity) {
    r.axes.resize(c.rank(0));
    std::iota(r.axes.begin(), r.axes.end(), 0);
  }
  return r;
}

ValueId reduce(NodeContext& c, std::string_view op, ValueId x, const Reduction& r) {
  return r.axes.empty() ? x : c.emit().reduce(op, x, r.axes, r.keep);
}

Outputs convert_reduce(NodeContext& c) {
  static const std::map<std::string, std::string_view> kOps = {{"ReduceSum", "reduce_sum"},
                                                              {"ReduceMean", "reduce_mean"},
                                                              {"ReduceMax", "reduce_max"},
                                                              {"ReduceMin", "reduce_min"},
                                                              {"ReduceProd", "reduce_prod"}};
  return {reduce(c, kOps.at(c.op()), c.input(0), reduction_of(c))};
}

Outputs convert_reduce_l1(NodeContext& c) { return {reduce(c, "reduce_sum", c.emit().op("abs", {c.input(0)}), reduction_of(c))}; }

ValueId sum_of_squares(NodeContext& c) {
  return reduce(c, "reduce_sum", c.emit().mul(c.input(0), c.input(0)), reduction_of(c));
}

// Integers: the root is taken as f32 would be too coarse for them, so in f64.
Outputs convert_reduce_l2(NodeContext& c) {
  Emitter& e = c.emit();
  const DataType type = c.type(0).type;
  const ValueId squares = sum_of_squares(c);
  if (type.is_float()) return {e.op("sqrt", {squares})};
  return {e.cast(e.op("sqrt", {e.cast(squares, DataType::f64())}), type)};
}

ValueId log_of(Emitter& e, ValueId x, DataType type) {
  if (type.is_float()) return e.op("log", {x});
  return e.cast(e.op("log", {e.cast(x, DataType::f64())}), type);
}

Outputs convert_reduce_log_sum(NodeContext& c) {
  return {log_of(c.emit(), reduce(c, "reduce_sum", c.input(0), reduction_of(c)), c.type(0).type)};
}

// log(sum(exp(x - m))) + m with m = max(x), which does not overflow; m is 0 where it is infinite.
Outputs convert_reduce_log_sum_exp(NodeContext& c) {
  Emitter& e = c.emit();
  const Reduction r = reduction_of(c);
  const DataType type = c.type(0).type;
  const ValueId x = type.is_float() ? c.input(0) : e.cast(c.input(0), DataType::f64());
  if (c.type(0).elements() == 0) return {e.cast(e.op("log", {reduce(c, "reduce_sum", e.op("exp", {x}), r)}), type)};
  Reduction kept = r;
  kept.keep = KeepDims::kYes;
  const ValueId top = reduce(c, "reduce_max", x, kept);
  const ValueId infinite = e.op("is_inf", {top}, {{"detect_negative", int64_t{1}}, {"detect_positive", int64_t{1}}});
  const ValueId shift = e.where(infinite, e.scalar(0, e.data_type(top)), top);
  const ValueId sum = reduce(c, "reduce_sum", e.op("exp", {e.sub(x, shift)}), r);
  return {e.cast(e.add(e.op("log", {sum}), e.reshape(shift, e.shape(sum))), type)};
}

Outputs convert_arg(NodeContext& c) {
  const int64_t axis = c.axis_or("axis", 0, c.rank(0));
  return {c.emit().op(c.op() == "ArgMax" ? "arg_max" : "arg_min", {c.input(0)},
                      {{"axis", axis}, {"keepdims", c.int_or("keepdims", 1)}, {"select_last_index", c.int_or("select_last_index", 0)}})};
}


// -w[t] * x[n, t, ...] with t the target class, 0 where t is ignore_index; then none, sum, or the mean weighted by w[t].
ValueId negative_log_likelihood(NodeContext& c, ValueId log_probabilities) {
  Emitter& e = c.emit();
  const Shape scores = c.shape(0);
  if (scores.size() < 2) throw UserError("the scores must have shape (N, C, ...)");
  Shape per_target = scores;
  per_target.erase(per_target.begin() + 1);
  if (c.shape(1) != per_target) throw UserError(fmt::format("the target must have shape {}", to_string(per_target)));
  const std::string reduction = c.string_or("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean") throw UserError(fmt::format("reduction '{}'", reduction));
  const DataType type = c.type(0).type;
  ValueId target = c.input(1);
  ValueId weight = c.has(2) ? c.input(2) : graph::kAbsent;
  ValueId ignored = graph::kAbsent;
  if (c.has_attr("ignore_index")) {
    ignored = e.op("equal", {target, e.scalar(static_cast<double>(c.int_or("ignore_index", 0)), e.data_type(target))});
    target = e.where(ignored, e.scalar(0, e.data_type(target)), target);
  }
  Shape with_class = per_target;
  with_class.insert(with_class.begin() + 1, 1);
  const ValueId picked = e.op("gather_elements", {log_probabilities, e.reshape(target, with_class)}, {{"axis", int64_t{1}}});
  ValueId loss = e.op("neg", {e.reshape(picked, per_target)});
  ValueId factor = weight == graph::kAbsent ? graph::kAbsent : e.gather(weight, target, 0);
  if (ignored != graph::kAbsent) {
    const ValueId one = factor == graph::kAbsent ? e.scalar(1, type) : factor;
    factor = e.where(ignored, e.scalar(0, type), one);
  }
  if (factor != graph::kAbsent) loss = e.mul(loss, factor);
  if (reduction == "none") return loss;
  std::vector<int64_t> all(per_target.size());
  std::iota(all.begin(), all.end(), 0);
  if (reduction == "mean" && factor == graph::kAbsent) return e.reduce("reduce_mean", loss, all, KeepDims::kNo);
  const ValueId sum = e.reduce("reduce_sum", loss, all, KeepDims::kNo);
  return reduction == "sum" ? sum : e.div(sum, e.reduce("reduce_sum", e.expand(factor, per_target), all, KeepDims::kNo));
}

Outputs convert_nll_loss(NodeContext& c) { return {negative_log_likelihood(c, c.input(0))}; }

Outputs convert_cross_entropy(NodeContext& c) {
  if (c.rank(0) < 2) throw UserError("the scores must have shape (N, C, ...)");
  const ValueId log_probabilities = c.emit().op("log_softmax", {c.input(0)}, {{"axis", int64_t{1}}});
  return {negative_log_likelihood(c, log_probabilities), log_probabilities};
}

constexpr auto kRows = std::to_array<ConverterRow>({
    {"ReduceSum", 1, 0, convert_reduce},
    {"ReduceMean", 1, 0, convert_reduce},
    {"ReduceMax", 1, 0, convert_reduce},
    {"ReduceMin", 1, 0, convert_reduce},
    {"ReduceProd", 1, 0, convert_reduce},
    {"ReduceL1", 1, 0, convert_reduce_l1},
    {"ReduceL2", 1, 0, convert_reduce_l2},
    {"ReduceSumSquare", 1, 0, [](NodeContext& c) -> Outputs { return {sum_of_squares(c)}; }},
    {"ReduceLogSum", 1, 0, convert_reduce_log_sum},
    {"ReduceLogSumExp", 1, 0, convert_reduce_log_sum_exp},
    {"ArgMax", 1, 0, convert_arg},
    {"ArgMin", 1, 0, convert_arg},
    {"NegativeLogLikelihoodLoss", 12, 0, convert_nll_loss},
    {"SoftmaxCrossEntropyLoss", 12, 0, convert_cross_entropy},
});

}  // namespace

std::span<const ConverterRow> reduce_rows() { return kRows; }

}  // namespace tw::frontend
