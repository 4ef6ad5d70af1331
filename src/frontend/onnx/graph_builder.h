// Builds a graph::Graph under ONNX's value names, inferring types and evaluating at import what is already known.
#pragma once
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/op.h"

namespace tw::frontend {

using graph::kAbsent;
using graph::ValueId;

class GraphBuilder {
 public:
  GraphBuilder(std::string name, const graph::OpTable& ops);

  graph::ValueId add_input(const std::string& name, TensorType type);
  graph::ValueId add_constant(const std::string& name, TensorType type, graph::Bytes bytes);
  graph::ValueId add_constant(const std::string& name, const graph::RefTensor& tensor);

  /// Appends one application of an operator; its outputs are named `value_name`, `value_name`.1, ... When all inputs
  /// are constants and inputs and results are small (limits.h), the reference is evaluated instead and the outputs are
  /// constants. Throws UserError when the inputs do not fit the operator, Unsupported when the OpTable has no such
  /// operator.
  std::vector<graph::ValueId> append(graph::Node node, const std::string& value_name);

  const TensorType& type(graph::ValueId id) const { return graph_.value(id).type; }
  bool is_constant(graph::ValueId id) const { return graph_.value(id).is_constant(); }
  /// The elements of a constant, which the import depends on from now on.
  graph::RefTensor constant(graph::ValueId id);
  /// The elements of a value that is computed from constants alone, which import depends on then. What is too large to
  /// become a constant wherever it stands is evaluated here, when its elements are asked for. Unsupported beyond the
  /// limits, and where a constant behind it may still change.
  graph::RefTensor evaluate(graph::ValueId id);
  /// The same as they are in memory, for what does not change the graph.
  std::span<const std::byte> bytes(graph::ValueId id) const { return *graph_.value(id).constant; }
  const graph::Bytes& shared_bytes(graph::ValueId id) const { return graph_.value(id).constant; }
  /// For every value whether constant() gave its elements, or those of what was computed from it.
  std::vector<bool> looked_at() const;
  size_t num_values() const { return graph_.values.size(); }
  const graph::OpTable& ops() const { return ops_; }
  const std::string& value_name(graph::ValueId id) const { return graph_.value(id).name; }

  /// A sequence of values. What stands for it is a constant, i64[]: how many there are.
  graph::ValueId add_sequence(const std::string& name, std::vector<graph::ValueId> elements);
  /// Its elements; null where the value is no sequence.
  const std::vector<graph::ValueId>* sequence(graph::ValueId id) const;

  /// Nothing is folded of the constant `id`: it may become something else.
  void keep(graph::ValueId id) { kept_.insert(id); }
  bool is_kept(graph::ValueId id) const { return kept_.contains(id); }
  /// The import depends on the elements of the constant `id`, as if constant() had been asked for them.
  void look_at(graph::ValueId id) { looked_at_.push_back(id); }
  /// Gives the value `name` (or `name` with a suffix where it is taken).
  void rename(graph::ValueId id, const std::string& name);
  /// Gives the value exactly `name`; another value of that name gets a suffix.
  void force_name(graph::ValueId id, const std::string& name);
  /// The node that computes `id`, or null.
  const graph::Node* producer(graph::ValueId id) const {
    return producers_.at(id) < 0 ? nullptr : &graph_.nodes[producers_[id]];
  }
  /// Names of the graph inputs that `id` is computed from.
  std::vector<std::string> inputs_behind(graph::ValueId id) const;
  /// Whether `id` is a graph input.
  bool is_input(graph::ValueId id) const;

  /// The graph with these outputs, without what they do not need.
  graph::Graph finish(std::vector<graph::ValueId> outputs);

 private:
  std::string unique(const std::string& wanted);
  graph::ValueId add_value(const std::string& name, TensorType type);
  bool can_fold(const graph::OpCall& call, const std::vector<TensorType>& types);
  std::vector<graph::ValueId> fold(const graph::OpCall& call, const std::string& value_name);
  graph::RefTensor elements(graph::ValueId id) const;
  std::vector<int> nodes_behind(graph::ValueId id) const;

  const graph::OpTable& ops_;
  graph::Graph graph_;
  std::unordered_map<std::string, int> taken_;  // name -> next suffix to try
  std::vector<int> producers_;                  // node of each value, -1 for inputs and constants
  std::set<graph::ValueId> kept_;
  std::map<graph::ValueId, std::vector<graph::ValueId>> sequences_;
  std::map<graph::ValueId, graph::RefTensor> evaluated_;  // see evaluate
  int64_t fold_work_ = 0;                                 // elements, see kMaxFoldWork
  std::vector<graph::ValueId> looked_at_;
  std::map<graph::ValueId, std::vector<graph::ValueId>> folded_from_;  // a result's operands
};

}  // namespace tw::frontend
