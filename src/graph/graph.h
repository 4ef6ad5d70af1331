// Graph IR: a model as values and operator nodes, and after partition as fused groups with layouts.
//
// A Graph is a plain value: passes take one and return another. Nodes are in topological order. A node's operator is a
// row of the OpTable (graph/op.h); everything an operator needs beside tensors is a static attribute (an ONNX
// operator's shape, axes or pads inputs become attributes at import). A fused group is a node of operator "group" whose
// `body` is a graph: the group's inputs and outputs are the body's, by position. A loop is a node of operator "repeat"
// (graph/repeat.h), whose body is what each turn computes.
#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "core/layout.h"
#include "core/tensor_type.h"
#include "support/shared_bytes.h"

namespace tw::graph {

using ValueId = int;
constexpr ValueId kAbsent = -1;  // an optional input that is not given

using Attr =
    std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>, std::vector<std::string>>;
using Attrs = std::map<std::string, Attr>;

/// Row-major logical elements, little endian, bool as one byte. Shared, never changed.
using Bytes = SharedBytes;

struct Value {
  std::string name;  // unique in its graph
  TensorType type;   // logical
  Layout layout;     // how it is stored
  Bytes constant;    // null unless the value is a constant; always in logical row-major order
  /// Its elements are known at compile time: passes may look at them and compute with them.
  bool is_constant() const { return constant != nullptr; }
  /// The artefact keeps it from one run to the next, so that its storage is ours to choose: its readers say how they
  /// like it best, and nobody outside sees it.
  bool is_kept() const { return is_constant(); }
};

struct Graph;

struct Node {
  std::string op;    // row of the OpTable, or "group"
  std::string name;  // ONNX node name (or made from its output); for messages
  Attrs attrs = {};
  std::vector<ValueId> inputs = {};
  std::vector<ValueId> outputs = {};
  std::shared_ptr<const Graph> body = {};  // of a group or a loop
  bool is_group() const { return op == "group"; }

  // Attribute access; the first four throw InternalError when the attribute is missing or of another kind.
  int64_t int_attr(const std::string& key) const;
  double float_attr(const std::string& key) const;
  const std::string& string_attr(const std::string& key) const;
  const std::vector<int64_t>& ints_attr(const std::string& key) const;
  int64_t int_attr_or(const std::string& key, int64_t fallback) const;
  double float_attr_or(const std::string& key, double fallback) const;
  std::string string_attr_or(const std::string& key, const std::string& fallback) const;
  std::vector<int64_t> ints_attr_or(const std::string& key, const std::vector<int64_t>& fallback) const;
  bool has_attr(const std::string& key) const { return attrs.count(key) != 0; }
};

/// Whether the node draws random numbers (operators dropout, noise_uniform, noise_normal). Training gives it a seed and
/// the number of the run behind its input; without them the node is its input.
bool draws_numbers(const Node& node);

/// The names of a graph's values while many are added to it: which ones are free is known without a look at all of
/// them. Values are neither renamed nor removed meanwhile, except that two may swap their names.
class NameSet {
 public:
  explicit NameSet(const Graph& graph);
  /// `wanted`, or with the first suffix _1, _2, .. that is free; it is taken from now on.
  std::string unique(std::string wanted);

 private:
  std::unordered_map<std::string, size_t> next_suffix_;
};

struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;

  const Value& value(ValueId id) const { return values.at(id); }
  /// Index of the node that produces `id`, or -1 (inputs, constants).
  int producer(ValueId id) const;
  /// producer() of every value at once.
  std::vector<int> producers() const;
  /// For each value the nodes that read it, in order; a node that reads it twice appears twice.
  std::vector<std::vector<int>> consumers() const;
  bool is_output(ValueId id) const;
  /// The value of that name, or kAbsent.
  ValueId find_value(std::string_view name) const;

  // Construction, used by importer and passes. Who adds many values has a NameSet.
  ValueId add_value(std::string name, TensorType type, NameSet* names = nullptr);  // the name is made unique
  ValueId add_constant(std::string name, TensorType type, Bytes bytes, NameSet* names = nullptr);  // checks the size
  ValueId add_input(std::string name, TensorType type);
  /// Appends a node with one output for each of `types`, named after `name`; returns the outputs.
  std::vector<ValueId> add_node(Node node, const std::vector<TensorType>& types, NameSet* names = nullptr);
};

/// The graph without unused values and nodes, nodes in topological order, values renumbered in order of first use.
Graph compact(const Graph& graph);

/// Drops those of the nodes from `first` on of whose results neither `results` nor later nodes need any. Values keep
/// their numbers.
void drop_unneeded(Graph& graph, size_t first, const std::vector<ValueId>& results);

class OpTable;
/// Throws InternalError at the first broken rule: ids, order, unique names, operators, inferred types, constant sizes.
void verify(const Graph& graph, const OpTable& ops);

/// Whether the text of a graph holds the elements of this constant: at most 16, and none is a NaN with other bits than
/// the usual quiet one.
bool is_inline(const Value& constant);
/// Content hashes of constants' bytes, each computed once.
class ContentHashes {
 public:
  const std::string& of(const Bytes& bytes);
  /// Those of all constants of `graph`, several at a time.
  void add(const Graph& graph);

 private:
  std::map<Bytes, std::string> known_;  // which keeps the bytes, so that no others come to lie there
};
/// Text. Constants up to 16 elements print their values, larger ones a content hash.
std::string to_string(const Graph& graph);
std::string to_string(const Graph& graph, ContentHashes& hashes);
/// The text without layouts of constants and without their elements, but for constants of one element: what code is
/// made from. Graphs of equal outlines differ in the elements of constants alone.
std::string to_outline(const Graph& graph);
/// All large constants of a graph (its groups' too) by the name under which to_string refers to them.
std::map<std::string, Bytes> large_constants(const Graph& graph);
/// Inverse of to_string; large constants are taken from `constants` (name -> bytes). Throws UserError with line and
/// column.
Graph parse_graph(std::string_view text, const std::map<std::string, Bytes>& constants);
/// The bytes of the large constant `declared`, in logical order; null when there are none.
using ConstantSource = std::function<Bytes(const Value& declared, const std::string& reference)>;
/// The same with the large constants from where `source` finds them, once their types and layouts are known.
Graph parse_graph_from(std::string_view text, const ConstantSource& source);

}  // namespace tw::graph
