// Activations as ONNX operators.
#pragma once
#include <span>
#include <string_view>
#include <vector>

namespace tw::frontend {

/// One ONNX operator of an activation.
struct ActivationStep {
  struct Operand {
    enum class Kind : uint8_t { kSource, kStep, kNumber } kind = Kind::kSource;
    int step = 0;       // an earlier one
    double number = 0;  // of the source's type
  };
  struct Attribute {
    std::string_view name;
    double value = 0;
  };
  std::string_view op;
  std::vector<Operand> operands;
  std::vector<Attribute> attributes = {};
};

/// An operator of ops/unary.cpp in operators that every opset from `since` on has; the last step is the result.
struct ActivationForm {
  std::string_view name;
  int64_t since = 7;
  std::vector<ActivationStep> steps;
};

/// All that a model may be given. Graph pass `canonicalize` makes one operator of each.
std::span<const ActivationForm> activation_forms();

}  // namespace tw::frontend
