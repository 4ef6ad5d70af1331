// What may be changed in a model to suit a target better, as changes of its file: other activations, 1 x 1 convolutions
// behind 3 x 3 ones, wider channels (Xing et al., Bolt: Bridging the Gap between Auto-tuners and Hardware-native
// Performance, section 3.3).
#pragma once
#include <string>
#include <vector>

#include "frontend/onnx/edit/editable_model.h"
#include "transform/pass.h"

namespace tw::advise {

enum class AdviceKind : uint8_t { kActivation, kDeepen, kAlign };
/// "activation", "deepen", "align".
std::string_view kind_name(AdviceKind kind);

struct Advice {
  AdviceKind kind = AdviceKind::kActivation;
  std::string what;                     // "gelu instead of relu, 22 times"
  std::vector<std::string> nodes = {};  // ONNX nodes that it is about
  std::vector<frontend::Rewrite> rewrites = {};
};

struct AdviceOptions {
  int64_t first_layers = 3;  // how many layers the advice for the first ones deepens
};

/// All advice for the model that `graph` was imported from, always in the same order: activations, deepening,
/// alignment.
std::vector<Advice> find_advice(const frontend::EditableModel& model, const graph::Graph& graph,
                                const transform::TransformContext& context, const AdviceOptions& options);

/// The changes of several pieces of advice, those that others build on first. UsageError: two of them change the same.
std::vector<frontend::Rewrite> joined_rewrites(const std::vector<const Advice*>& advice);

}  // namespace tw::advise
