// Operators: what each one infers, computes (te) and must equal (f64 reference). The table is passed, never global.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/ref_tensor.h"
#include "te/te.h"

namespace tw::graph {

/// What fusion needs to know.
enum class OpClass : uint8_t {
  kElementwise,  // out[i] depends on in[i] (with broadcasting)
  kInjective,    // data movement: out[i] = in[map(i)]
  kReduction,    // reductions, pooling, softmax, normalizations
  kContraction,  // sums of products: matmul, convolution
  kOpaque,       // no te: a loop-IR body of its own
};

/// One application of an operator: its node and the types of its inputs (an absent optional input has no entry in
/// `present`).
struct OpCall {
  const Node& node;
  std::vector<TensorType> inputs;  // one for each node input; absent ones are empty f32
  std::vector<bool> present;
  bool has(size_t input) const { return input < present.size() && present[input]; }
};

/// Throws UserError "node 'name' (op): <message>".
[[noreturn]] void reject(const OpCall& call, std::string_view message);

/// How many inputs an operator takes; the first `low` must be present.
struct Arity {
  size_t low = 1, high = 1;
};

class Term;
struct GradientCall;

/// How a gradient passes an operator: by a rule (graph/gradient.h), not at all, or nobody can say.
struct Gradient {
  enum class Kind : uint8_t {
    kUnstated,
    kRule,
    kZero,     // by definition: a result that is no float, or constant between its jumps
    kRefused,  // a loss behind it cannot be differentiated
  };
  Kind kind = Kind::kUnstated;
  std::vector<Term> (*rule)(const GradientCall& call) = nullptr;  // kRule: one term for each input
  std::string_view reason = {};                                   // kZero, kRefused: why
};

struct OpDef {
  /// Types of the outputs. Throws UserError naming shapes and attributes when the inputs do not fit.
  std::vector<TensorType> output_types(const OpCall& call) const;

  std::string_view name;
  OpClass op_class;
  /// The same for as many inputs as the operator takes.
  std::vector<TensorType> (*infer)(const OpCall& call);
  /// Appends the computes of this call on the tensors `inputs` (absent: empty name); returns one tensor an output.
  std::vector<te::Tensor> (*te)(const OpCall& call, te::Builder& builder, const std::vector<te::Tensor>& inputs);
  /// The same in f64 (integers in i64), written from the operator's definition, independent of te.
  std::vector<RefTensor> (*reference)(const OpCall& call, std::span<const RefTensor> inputs);
  Arity inputs = {};
  Gradient gradient = {};
};

class OpTable {
 public:
  explicit OpTable(std::vector<OpDef> rows);
  const OpDef* find(std::string_view name) const;  // null when unknown
  const OpDef& at(std::string_view name) const;    // InternalError when unknown
  std::span<const OpDef> rows() const { return rows_; }

 private:
  std::vector<OpDef> rows_;  // sorted by name
};

/// The call of node `node` of `graph`.
OpCall make_call(const Graph& graph, const Node& node);

/// Appends `node` (operator, name, attributes, inputs) with outputs of the types that its operator infers; returns the
/// outputs. Throws UserError when the inputs do not fit.
std::vector<ValueId> append_node(Graph& graph, const OpTable& ops, Node node, NameSet* names = nullptr);

/// The te program of a graph (a group's body): placeholders for its inputs and constants in order of `program.inputs`,
/// all computes of its nodes, outputs in order. Tensors are named by position and operator. Logical layouts. A value
/// that is several operands of products has a placeholder for each of them (te/operands.h).
struct GroupProgram {
  te::Program program;
  std::vector<ValueId> inputs;               // value of each program input; one may stand there several times
  std::vector<std::string> output_tensors;   // tensor of each graph output
  std::map<std::string, std::string> nodes;  // which node computes a tensor: its name, and its operator behind it
};
GroupProgram to_te(const Graph& group, const OpTable& ops);
/// `text`, which speaks of tensors of a program, with the nodes that compute them in their place.
std::string in_words_of_graph(std::string_view text, const std::map<std::string, std::string>& nodes);

}  // namespace tw::graph
