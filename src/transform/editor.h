// Editing a graph in place: uses of values stay counted while nodes are added and values replaced; the order of nodes
// is restored at the end.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op.h"
#include "graph/ref_tensor.h"
#include "transform/names.h"

namespace tw::transform {

class Editor {
 public:
  /// Starts from what `graph` needs.
  Editor(const graph::Graph& graph, const graph::OpTable& ops);

  const graph::Graph& graph() const { return graph_; }
  const graph::OpTable& ops() const { return ops_; }
  const graph::Value& value(graph::ValueId id) const { return graph_.value(id); }
  const TensorType& type(graph::ValueId id) const { return graph_.value(id).type; }
  const Shape& shape(graph::ValueId id) const { return type(id).shape; }
  size_t node_count() const { return graph_.nodes.size(); }
  /// A node; the reference lasts until a node is added.
  const graph::Node& node(size_t n) const { return graph_.nodes.at(n); }
  /// Whether nothing reads the node any more.
  bool is_dead(size_t n) const { return dead_.at(n); }
  /// Calls f with a copy of each live node that is no group: of those that are there now, in order.
  template <typename F>
  void for_each_old(const F& f) const {
    for (size_t n = 0, count = node_count(); n < count; ++n) call_with(n, f);
  }
  /// The same, with those that f adds.
  template <typename F>
  void for_each(const F& f) const {
    for (size_t n = 0; n < node_count(); ++n) call_with(n, f);
  }

  /// The node that computes `id`, or null; with `op`, only a node of that operator.
  const graph::Node* producer(graph::ValueId id) const;
  const graph::Node* producer(graph::ValueId id, std::string_view op) const;
  /// Nodes that read `id`; one that reads it twice appears twice.
  const std::vector<int>& readers(graph::ValueId id) const { return readers_.at(id); }
  /// Reads by nodes, plus one when it leaves the graph.
  size_t use_count(graph::ValueId id) const;
  bool is_input(graph::ValueId id) const;

  /// Appends a node (operator, name, attributes, inputs) with one output, of the type that its operator infers.
  graph::ValueId add(graph::Node node);
  /// The same with as many outputs as there are types.
  std::vector<graph::ValueId> add_all(graph::Node node);
  graph::ValueId emit(std::string name, std::string op, std::vector<graph::ValueId> inputs, graph::Attrs attrs = {});
  /// The same named after `like`.
  graph::ValueId emit(const graph::Node& like, std::string op, std::vector<graph::ValueId> inputs,
                      graph::Attrs attrs = {}) {
    return emit(like.name, std::move(op), std::move(inputs), std::move(attrs));
  }
  /// The elements of `x` from `starts` on, as many as `extents` says.
  graph::ValueId emit_slice(std::string name, graph::ValueId x, Ints starts, const Shape& extents);
  graph::ValueId add_constant(const std::string& name, const TensorType& type, graph::Bytes bytes);
  graph::ValueId add_constant(const std::string& name, const TensorType& type, std::vector<std::byte> bytes) {
    return add_constant(name, type, share(std::move(bytes)));
  }
  graph::ValueId add_constant(const std::string& name, const graph::RefTensor& elements) {
    return add_constant(name, elements.type, elements.to_bytes());
  }

  /// All uses of `from` read `to`, a value of the same type, instead. Model outputs keep their names: `to` takes over
  /// the name, and where it cannot (it is an input, a constant or an output itself) an identity node computes `from`.
  /// Returns whether anything changed.
  bool replace(graph::ValueId from, graph::ValueId to);

  /// The edited graph without dead nodes, in topological order.
  graph::Graph finish() const;

 private:
  template <typename F>
  void call_with(size_t n, const F& f) const {
    if (!is_dead(n) && !node(n).is_group()) f(Node(node(n)));
  }
  graph::NameSet* names();
  int append(graph::Node node, const std::vector<TensorType>& types);
  void drop_if_unused(graph::ValueId id);
  bool replace_output(graph::ValueId from, graph::ValueId to);

  graph::Graph graph_;
  std::optional<graph::NameSet> names_;
  const graph::OpTable& ops_;
  std::vector<int> producers_;             // by value
  std::vector<std::vector<int>> readers_;  // by value
  std::vector<bool> dead_;                 // by node
};

// ---- Reading and making constants in passes (constants.cpp).

/// The one number that every element of a constant is; nothing when the value is no constant, is empty, or has elements
/// that differ. Constants above 4096 elements are not looked through.
std::optional<double> splat_of(const graph::Value& value);

/// Whether a constant is `wanted` as a model of this type writes it: to the type's precision, and not worse than f32.
bool is_about(double x, double wanted, DataType type);

/// Elements in f64 or i64.
graph::RefTensor elements_of(const graph::Value& constant);
/// Elements rounded to their type.
graph::Bytes bytes_of(const graph::RefTensor& tensor);

/// A constant of type `type` and shape [] that holds `number` rounded to it.
graph::Bytes scalar_bytes(DataType type, double number);

}  // namespace tw::transform
