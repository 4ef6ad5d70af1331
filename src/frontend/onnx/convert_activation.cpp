// Activation functions: each is one graph operator with the ONNX node's parameters.

#include "frontend/onnx/converters.h"

namespace tw::frontend {
namespace {

Outputs apply(NodeContext& c, std::string_view op, graph::Attrs attrs = {}) {
  c.ignore_attr("consumed_inputs");
  return {c.emit().op(op, {c.input(0)}, std::move(attrs))};
}

graph::Attrs alpha(NodeContext& c, double fallback) { return {{"alpha", c.float_or("alpha", fallback)}}; }

Outputs convert_relu(NodeContext& c) { return apply(c, "relu"); }
Outputs convert_sigmoid(NodeContext& c) { return apply(c, "sigmoid"); }
Outputs convert_softplus(NodeContext& c) { return apply(c, "softplus"); }
Outputs convert_softsign(NodeContext& c) { return apply(c, "softsign"); }
Outputs convert_mish(NodeContext& c) { return apply(c, "mish"); }
Outputs convert_hard_swish(NodeContext& c) { return apply(c, "hard_swish"); }
Outputs convert_leaky_relu(NodeContext& c) { return apply(c, "leaky_relu", alpha(c, 0.01)); }
Outputs convert_elu(NodeContext& c) { return apply(c, "elu", alpha(c, 1)); }
Outputs convert_thresholded_relu(NodeContext& c) { return apply(c, "thresholded_relu", alpha(c, 1)); }
Outputs convert_swish(NodeContext& c) { return apply(c, "silu", alpha(c, 1)); }

Outputs convert_celu(NodeContext& c) {
  if (c.float_or("alpha", 1) == 0) throw UserError("attribute 'alpha' must not be 0");
  return apply(c, "celu", alpha(c, 1));
}

Outputs convert_selu(NodeContext& c) {
  // The defaults of Selu before opset 6 were rounded.
  const double alpha = c.float_or("alpha", c.opset() < 6 ? 1.6732 : 1.67326319217681884765625);
  const double gamma = c.float_or("gamma", c.opset() < 6 ? 1.0507 : 1.05070102214813232421875);
  return apply(c, "selu", {{"alpha", alpha}, {"gamma", gamma}});
}

Outputs convert_hard_sigmoid(NodeContext& c) {
  return apply(c, "hard_sigmoid", {{"alpha", c.float_or("alpha", 0.2F)}, {"beta", c.float_or("beta", 0.5)}});
}

Outputs convert_shrink(NodeContext& c) {
  return apply(c, "shrink", {{"lambd", c.float_or("lambd", 0.5)}, {"bias", c.float_or("bias", 0)}});
}

Outputs convert_gelu(NodeContext& c) {
  return apply(c, c.choice("approximate", {"none", "tanh"}) == "none" ? "gelu" : "gelu_tanh");
}

// The slope broadcasts one way to x; before opset 7 a slope of C elements is for each channel.
Outputs convert_prelu(NodeContext& c) {
  c.ignore_attr("consumed_inputs");
  Emitter& e = c.emit();
  ValueId slope = c.input(1);
  if (c.opset() < 7 && c.rank(1) == 1 && c.rank(0) > 1) {
    Shape shape(c.rank(0) - 1, 1);
    shape[0] = c.shape(1)[0];
    slope = e.reshape(slope, shape);
  }
  Shape result;
  if (!broadcast_shapes(c.shape(0), e.shape(slope), &result) || result != c.shape(0)) {
    throw UserError("the slope {} does not broadcast to {}", to_string(e.shape(slope)), to_string(c.shape(0)));
  }
  return {e.op("prelu", {c.input(0), slope})};
}

constexpr auto kRows = std::to_array<ConverterRow>({
    {"Relu", 1, 0, convert_relu},
    {"LeakyRelu", 1, 0, convert_leaky_relu},
    {"PRelu", 1, 0, convert_prelu},
    {"Elu", 1, 0, convert_elu},
    {"Selu", 1, 0, convert_selu},
    {"Celu", 12, 0, convert_celu},
    {"Sigmoid", 1, 0, convert_sigmoid},
    {"HardSigmoid", 1, 0, convert_hard_sigmoid},
    {"HardSwish", 14, 0, convert_hard_swish},
    {"Softplus", 1, 0, convert_softplus},
    {"Softsign", 1, 0, convert_softsign},
    {"ThresholdedRelu", 10, 0, convert_thresholded_relu},
    {"Shrink", 9, 0, convert_shrink},
    {"Gelu", 20, 0, convert_gelu},
    {"Mish", 18, 0, convert_mish},
    {"Swish", 24, 0, convert_swish},
});

}  // namespace

std::span<const ConverterRow> activation_rows() { return kRows; }

}  // namespace tw::frontend
