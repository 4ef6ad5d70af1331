// The graph reference evaluator: node by node in f64, no fusion, no reuse.
#include "graph/op.h"
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

  std::vector<RefTensor> operands(const Node& node) const {
    std::vector<RefTensor> result;
    for (ValueId in : node.inputs)
      result.push_back(in == kAbsent ? RefTensor::zeros({DataType::f32(), {0}}) : values_.at(in));
    return result;
  }

  void evaluate_node(const Node& node) {
    std::vector<RefTensor> results;
    if (node.is_group()) {
      std::vector<RefTensor> body = evaluate(*node.body, ops_, operands(node), rounding_);
      for (ValueId out : node.body->outputs) results.push_back(body.at(out));
    } else {
      results = ops_.at(node.op).reference(make_call(graph_, node), operands(node));
    }
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

}  // namespace tw::graph
