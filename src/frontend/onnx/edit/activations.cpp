#include "frontend/onnx/edit/activations.h"

#include <cmath>
#include <numbers>

namespace tw::frontend {
namespace {

using Operand = ActivationStep::Operand;

const Operand kX = {};
Operand step(int number) { return {Operand::Kind::kStep, number, 0}; }
Operand number(double value) { return {Operand::Kind::kNumber, 0, value}; }

}  // namespace

std::span<const ActivationForm> activation_forms() {
  static const std::vector<ActivationForm> kForms = {
      {"hard_swish", 7, {{"HardSigmoid", {kX}, {{"alpha", 1.0 / 6}, {"beta", 0.5}}}, {"Mul", {kX, step(0)}}}},
      {"gelu",
       9,
       {{"Mul", {kX, number(1 / std::numbers::sqrt2)}},
        {"Erf", {step(0)}},
        {"Add", {step(1), number(1)}},
        {"Mul", {kX, step(2)}},
        {"Mul", {step(3), number(0.5)}}}},
      {"gelu_tanh",
       7,
       {{"Mul", {kX, kX}},
        {"Mul", {kX, step(0)}},
        {"Mul", {step(1), number(0.044715)}},
        {"Add", {kX, step(2)}},
        {"Mul", {step(3), number(std::sqrt(2 / std::numbers::pi))}},
        {"Tanh", {step(4)}},
        {"Add", {step(5), number(1)}},
        {"Mul", {kX, step(6)}},
        {"Mul", {step(7), number(0.5)}}}},
      {"silu", 7, {{"Sigmoid", {kX}}, {"Mul", {kX, step(0)}}}},
      {"mish", 7, {{"Softplus", {kX}}, {"Tanh", {step(0)}}, {"Mul", {kX, step(1)}}}},
      {"relu", 7, {{"Relu", {kX}}}},
      {"leaky_relu", 7, {{"LeakyRelu", {kX}, {{"alpha", 0.01}}}}},
      {"elu", 7, {{"Elu", {kX}, {{"alpha", 1}}}}},
      {"softplus", 7, {{"Softplus", {kX}}}}};
  return kForms;
}

}  // namespace tw::frontend
