// Activation functions: each is one graph operator with the ONNX node's parameters.

#include "frontend/onnx/converters.h"

namespace tw::frontend {
namespace {

Outputs convert_celu(NodeContext& c) {
  const double alpha = c.float_or("alpha", 1);
  if (alpha == 0) throw UserError("attribute 'alpha' must not be 0");
  return {c.emit().op("celu", {c.input(0)}, {{"alpha", alpha}})};
}

Outputs convert_gelu(NodeContext& c) {
  return {c.emit().op(c.choice("approximate", {"none", "tanh"}) == "none" ? "gelu" : "gelu_tanh", {c.input(0)})};
}

// The slope broadcasts one way to x; before opset 7 a slope of C elements is for each channel.
Outputs convert_prelu(NodeContext& c) {
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

}  // namespace

std::vector<ConverterRow> activation_rows() {
  return {
      {"Relu", 1, 0, plain("relu")},
      {"LeakyRelu", 1, 0, plain("leaky_relu", 1, {{"alpha", 0.01}})},
      {"PRelu", 1, 0, convert_prelu},
      {"Elu", 1, 0, plain("elu", 1, {{"alpha", 1.0}})},
      // The defaults of Selu before opset 6 were rounded.
      {"Selu", 1, 5, plain("selu", 1, {{"alpha", 1.6732}, {"gamma", 1.0507}})},
      {"Selu", 6, 0, plain("selu", 1, {{"alpha", 1.67326319217681884765625}, {"gamma", 1.05070102214813232421875}})},
      {"Celu", 12, 0, convert_celu},
      {"Sigmoid", 1, 0, plain("sigmoid")},
      {"HardSigmoid", 1, 0, plain("hard_sigmoid", 1, {{"alpha", 0.2F}, {"beta", 0.5}})},
      {"HardSwish", 14, 0, plain("hard_swish")},
      {"Softplus", 1, 0, plain("softplus")},
      {"Softsign", 1, 0, plain("softsign")},
      {"ThresholdedRelu", 10, 0, plain("thresholded_relu", 1, {{"alpha", 1.0}})},
      {"Shrink", 9, 0, plain("shrink", 1, {{"lambd", 0.5}, {"bias", 0.0}})},
      {"Gelu", 20, 0, convert_gelu},
      {"Mish", 18, 0, plain("mish")},
      {"Swish", 24, 0, plain("silu", 1, {{"alpha", 1.0}})}};
}

}  // namespace tw::frontend
