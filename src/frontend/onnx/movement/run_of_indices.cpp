#include "frontend/onnx/movement/run_of_indices.h"

namespace tw::frontend {
namespace {

bool is_move(const graph::Node& node) { return node.op == "reshape" || node.op == "identity" || node.op == "cast"; }

// The first of constants that are neighbours.
std::optional<int64_t> first_of_run(const graph::RefTensor& numbers) {
  if (numbers.is_float() || numbers.ints.empty()) return std::nullopt;
  for (size_t i = 1; i < numbers.ints.size(); ++i) {
    if (numbers.ints[i] != numbers.ints[i - 1] + 1) return std::nullopt;
  }
  return numbers.ints[0];
}

}  // namespace

std::optional<ValueId> start_of_run(NodeContext& c, ValueId indices) {
  Emitter& e = c.emit();
  GraphBuilder& builder = c.importer().builder();
  if (!e.data_type(indices).is_int()) return std::nullopt;
  if (num_elements(e.shape(indices)) == 1) return e.reshape(indices, {1});
  const graph::Node* node = builder.producer(indices);
  if (node == nullptr) return std::nullopt;
  if (is_move(*node)) return start_of_run(c, ValueId(node->inputs[0]));
  if (node->op != "add") return std::nullopt;
  for (const size_t k : {0, 1}) {
    const ValueId number = node->inputs[k], list = node->inputs[1 - k];
    if (num_elements(e.shape(number)) != 1 || !builder.is_constant(list) || e.shape(list) != e.shape(indices)) continue;
    const std::optional<int64_t> first = first_of_run(builder.constant(list));
    if (first) return e.add(e.reshape(number, {1}), e.scalar(static_cast<double>(*first), e.data_type(number)));
  }
  return std::nullopt;
}

std::optional<ValueId> start_of_runs(NodeContext& c, ValueId indices, int64_t axis) {
  Emitter& e = c.emit();
  const Shape shape = e.shape(indices);
  const auto is_run = [&](const Shape& s) {
    for (size_t d = 0; d < s.size(); ++d) {
      const bool along = static_cast<int64_t>(s.size() - d) == static_cast<int64_t>(shape.size()) - axis;
      if (!along && s[d] != 1) return false;
    }
    return true;
  };
  if (is_run(shape)) return start_of_run(c, indices);
  const graph::Node* node = c.importer().builder().producer(indices);
  if (node == nullptr || node->op != "expand") return std::nullopt;
  const ValueId before = node->inputs[0];
  const Shape narrow = e.shape(before);
  const bool whole = num_elements(narrow) == shape[static_cast<size_t>(axis)];
  return whole && is_run(narrow) ? start_of_run(c, before) : std::nullopt;
}

}  // namespace tw::frontend
