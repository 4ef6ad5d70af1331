// Reductions over axes, arg-reductions and the losses made of them.

#include "frontend/onnx/converters.h"

namespace tw::frontend {
namespace {

// Axes are an attribute before opset 18 (ReduceSum: 13), an optional input after. No axes mean all, or (on demand)
// none.
Outputs convert_reduce(NodeContext& c, std::string_view op) {
  const bool input_axes = c.opset() >= (c.op() == "ReduceSum" ? 13 : 18);
  const KeepDims keep = c.int_or("keepdims", 1) != 0 ? KeepDims::kYes : KeepDims::kNo;
  std::vector<int64_t> axes;
  if (!input_axes) axes = c.ints_or("axes", {});
  if (input_axes && c.has(1)) axes = c.const_ints(1, "axes");
  axes = normalize_axes(std::move(axes), c.rank(0));
  const bool none = input_axes && c.int_or("noop_with_empty_axes", 0) != 0;
  if (axes.empty() && !none) axes = sequence(c.rank(0));
  return {c.emit().reduce(op, c.input(0), axes, keep)};
}

Converter reduction(std::string_view op) {
  return [op](NodeContext& c) { return convert_reduce(c, op); };
}

Converter arg_reduction(std::string_view op) {
  return plain(op, 1, {{"axis", AxisOr{0}}, {"keepdims", 1}, {"select_last_index", 0}});
}

// -w[t] * x[n, t, ...] with t the target class, 0 where t is ignore_index; then none, sum, or the mean weighted by
// w[t].
ValueId negative_log_likelihood(NodeContext& c, ValueId log_probabilities) {
  Emitter& e = c.emit();
  const Shape scores = c.shape(0);
  if (scores.size() < 2) throw UserError("the scores must have shape (N, C, ...)");
  Shape per_target = scores;
  per_target.erase(per_target.begin() + 1);
  if (c.shape(1) != per_target) throw UserError("the target must have shape {}", to_string(per_target));
  const std::string reduction = c.choice("reduction", {"mean", "sum", "none"});
  const DataType type = c.type(0).type;
  ValueId target = c.input(1);
  ValueId weight = c.has(2) ? c.input(2) : graph::kAbsent;
  ValueId ignored = graph::kAbsent;
  if (c.has_attr("ignore_index")) {
    ignored = e.op("equal", {target, e.scalar(static_cast<double>(c.int_or("ignore_index", 0)), e.data_type(target))});
    target = e.where(ignored, e.scalar(0, e.data_type(target)), target);
  }
  const ValueId picked = e.op("gather_elements", {log_probabilities, e.unsqueeze(target, 1)}, {{"axis", int64_t{1}}});
  ValueId loss = e.op("neg", {e.reshape(picked, per_target)});
  ValueId factor = weight == graph::kAbsent ? graph::kAbsent : e.gather(weight, target, 0);
  if (ignored != graph::kAbsent) {
    const ValueId one = factor == graph::kAbsent ? e.scalar(1, type) : factor;
    factor = e.where(ignored, e.scalar(0, type), one);
  }
  if (factor != graph::kAbsent) loss = e.mul(loss, factor);
  if (reduction == "none") return loss;
  const std::vector<int64_t> all = sequence(std::ssize(per_target));
  if (reduction == "mean" && factor == graph::kAbsent) return e.reduce("reduce_mean", loss, all, KeepDims::kNo);
  const ValueId sum = e.reduce("reduce_sum", loss, all, KeepDims::kNo);
  return reduction == "sum" ? sum
                            : e.div(sum, e.reduce("reduce_sum", e.expand(factor, per_target), all, KeepDims::kNo));
}

Outputs convert_nll_loss(NodeContext& c) { return {negative_log_likelihood(c, c.input(0))}; }

Outputs convert_cross_entropy(NodeContext& c) {
  if (c.rank(0) < 2) throw UserError("the scores must have shape (N, C, ...)");
  const ValueId log_probabilities = c.emit().op("log_softmax", {c.input(0)}, {{"axis", int64_t{1}}});
  return {negative_log_likelihood(c, log_probabilities), log_probabilities};
}

}  // namespace

std::vector<ConverterRow> reduce_rows() {
  return {{"ReduceSum", 1, 0, reduction("reduce_sum")},
          {"ReduceMean", 1, 0, reduction("reduce_mean")},
          {"ReduceMax", 1, 0, reduction("reduce_max")},
          {"ReduceMin", 1, 0, reduction("reduce_min")},
          {"ReduceProd", 1, 0, reduction("reduce_prod")},
          {"ReduceL1", 1, 0, reduction("reduce_l1")},
          {"ReduceL2", 1, 0, reduction("reduce_l2")},
          {"ReduceSumSquare", 1, 0, reduction("reduce_sum_square")},
          {"ReduceLogSum", 1, 0, reduction("reduce_log_sum")},
          {"ReduceLogSumExp", 1, 0, reduction("reduce_log_sum_exp")},
          {"ArgMax", 1, 0, arg_reduction("arg_max")},
          {"ArgMin", 1, 0, arg_reduction("arg_min")},
          {"NegativeLogLikelihoodLoss", 12, 0, convert_nll_loss},
          {"SoftmaxCrossEntropyLoss", 12, 0, convert_cross_entropy}};
}

}  // namespace tw::frontend
