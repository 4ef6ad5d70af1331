#include "tests/harness/graph_evaluate.h"

#include <algorithm>

#include "support/error.h"

namespace tw::graph {
namespace {

class Evaluator {
 public:
  Evaluator(const Graph& graph, const OpTable& ops, Rounding rounding)
      : graph_(graph), ops_(ops), rounding_(rounding) {}

  std::vector<RefTensor> run(std::vector<RefTensor> inputs) {
    TW_CHECK(inputs.size() == graph_.inputs.size(), "graph '{}' has {} inputs, {} are given", graph_.name,
             graph_.inputs.size(), inputs.size());
    values_.resize(graph_.values.size());
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      if (value.is_constant()) values_[v] = RefTensor::from_bytes(value.type, *value.constant);
    }
    for (size_t k = 0; k < inputs.size(); ++k) set(graph_.inputs[k], std::move(inputs[k]));
    for (const Node& node : graph_.nodes) evaluate_node(node);
    return std::move(values_);
  }

 private:
  void set(ValueId id, RefTensor tensor) {
    TW_CHECK(tensor.type == graph_.value(id).type, "value '{}' is {}, evaluated as {}", graph_.value(id).name,
             to_string(graph_.value(id).type), to_string(tensor.type));
    values_.at(id) = std::move(tensor);
  }

  // The node's inputs, moved out of values_ (weights are large) until give_back; a value read twice is copied once.
  std::vector<RefTensor> lend(const Node& node) {
    std::vector<RefTensor> lent;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId in = node.inputs[k];
      const auto first = std::find(node.inputs.begin(), node.inputs.end(), in) - node.inputs.begin();
      if (in == kAbsent) {
        lent.push_back(RefTensor::zeros({DataType::f32(), {0}}));
      } else if (static_cast<size_t>(first) < k) {
        lent.push_back(lent[first]);
      } else {
        lent.push_back(std::move(values_.at(in)));
      }
    }
    return lent;
  }

  void give_back(const Node& node, std::vector<RefTensor> lent) {
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.inputs[k] != kAbsent) values_[node.inputs[k]] = std::move(lent[k]);
    }
  }

  void evaluate_node(const Node& node) {
    std::vector<RefTensor> operands = lend(node);
    std::vector<RefTensor> results;
    if (node.is_group()) {
      std::vector<RefTensor> body = evaluate(*node.body, ops_, std::move(operands), rounding_);
      for (ValueId out : node.body->outputs) results.push_back(body.at(out));
      operands.clear();
      for (ValueId in : node.body->inputs) operands.push_back(std::move(body.at(in)));
    } else {
      results = ops_.at(node.op).reference(make_call(graph_, node), operands);
    }
    give_back(node, std::move(operands));
    TW_CHECK(results.size() == node.outputs.size(), "'{}' ({}) gave {} results for {} outputs", node.name, node.op,
             results.size(), node.outputs.size());
    for (size_t k = 0; k < results.size(); ++k) {
      // Integers always have the width of their type: wrapping is their arithmetic, not a rounding.
      if (rounding_ == Rounding::kEachValue || !results[k].is_float()) results[k].round_to_type();
      set(node.outputs[k], std::move(results[k]));
    }
  }

  const Graph& graph_;
  const OpTable& ops_;
  Rounding rounding_;
  std::vector<RefTensor> values_;
};

}  // namespace

std::vector<RefTensor> evaluate(const Graph& graph, const OpTable& ops, std::vector<RefTensor> inputs,
                                Rounding rounding) {
  return Evaluator(graph, ops, rounding).run(std::move(inputs));
}

te::ValueMap inputs_of(const GroupProgram& group, const std::vector<RefTensor>& values) {
  te::ValueMap given;
  for (size_t k = 0; k < group.inputs.size(); ++k) {
    const RefTensor& x = values[group.inputs[k]];
    given[group.program.inputs[k].name] = {x.type.type, x.type.shape, x.floats, x.ints};
  }
  return given;
}

}  // namespace tw::graph
