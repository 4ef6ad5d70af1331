// Gradients of operators: what a rule is told, and the terms in which it writes its formula (ADR 0035).
//
// A rule gets one application of its operator and the gradients of its results, and returns those of its inputs. It
// writes ordinary nodes: `dy * cos(x)` appends two of them. So it must write only what a wanted input needs.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "graph/op.h"

namespace tw::graph {

class GradientBuilder;

/// A value of the graph that grows, or nothing (an optional input that is not given, a gradient that is zero).
class Term {
 public:
  Term() = default;
  Term(GradientBuilder& builder, ValueId id) : builder_(&builder), id_(id) {}
  explicit operator bool() const { return builder_ != nullptr; }
  ValueId id() const { return id_; }
  GradientBuilder& builder() const { return *builder_; }
  TensorType type() const;
  DataType element() const { return type().type; }
  Shape shape() const { return type().shape; }
  size_t rank() const { return shape().size(); }
  /// A constant of no dimensions and of this term's element type.
  Term number(double value) const;

 private:
  GradientBuilder* builder_ = nullptr;
  ValueId id_ = kAbsent;
};
using Terms = std::vector<Term>;

/// Appends nodes to a graph, named after the node whose gradient they are.
class GradientBuilder {
 public:
  GradientBuilder(Graph& graph, const OpTable& ops) : graph_(graph), ops_(ops), names_(graph) {}
  const Value& value(ValueId id) const { return graph_.value(id); }
  Term term(ValueId id) { return id == kAbsent ? Term{} : Term(*this, id); }
  void name_after(std::string node) { name_ = std::move(node); }

  /// All results of a node.
  Terms emit(std::string_view op, const Terms& inputs, Attrs attrs);
  Term constant(const RefTensor& elements);
  /// Constant i64 numbers, of one dimension.
  Term integers(const std::vector<int64_t>& elements);
  /// `number` everywhere, without a constant of that size.
  Term filled(double number, TensorType type);

 private:
  Graph& graph_;
  const OpTable& ops_;
  NameSet names_;
  std::string name_ = "loss";
};

/// One application of an operator on the way from what is wanted to the loss.
struct GradientCall {
  OpCall call;  // its node and the types of its inputs
  GradientBuilder& builder;
  Terms inputs;              // absent ones are nothing
  Terms outputs;             // its results
  Terms gradients;           // of each result; nothing where the loss does not depend on it. One of them is there
  std::vector<bool> wanted;  // by input: the rule returns nothing for the others
  const Node& node() const { return call.node; }
  const Term& x(size_t k = 0) const { return inputs.at(k); }
  const Term& y(size_t k = 0) const { return outputs.at(k); }
  const Term& dy(size_t k = 0) const { return gradients.at(k); }
  bool wants(size_t input) const { return input < wanted.size() && wanted[input]; }
};
/// What a rule returns may have the broadcast shape of the result: it is then summed to its input's.
using GradientRule = Terms (*)(const GradientCall& call);

// ---- Formulas. Binary operators broadcast as their operators do.

/// The first result of a node; at least one input is there.
Term emit(std::string_view op, const Terms& inputs, Attrs attrs = {});
Term operator+(const Term& a, const Term& b);
Term operator-(const Term& a, const Term& b);
Term operator*(const Term& a, const Term& b);
Term operator/(const Term& a, const Term& b);
Term operator+(const Term& a, double b);
Term operator-(const Term& a, double b);
Term operator*(const Term& a, double b);
Term operator/(const Term& a, double b);
Term operator-(double a, const Term& b);
Term operator-(const Term& a);
/// a + b where either may be nothing.
Term sum_of(const Term& a, const Term& b);
Term where(const Term& condition, const Term& a, const Term& b);
Term where(const Term& condition, const Term& a, double b);
Term where(const Term& condition, double a, const Term& b);
/// Comparisons ("equal", "less", ..) with a number.
Term compare(std::string_view op, const Term& a, double b);

Term cast(const Term& x, DataType type);
/// f16 and bf16 as f32, in which sums of them are built.
Term widened(const Term& x);
Term reshape(const Term& x, const Shape& shape);
Term transpose(const Term& x, const std::vector<int64_t>& perm);
Term expand(const Term& x, const Shape& shape);
/// Pairs of begin and end as operator pad has them; negative ones cut. New elements are 0.
Term pad(const Term& x, const std::vector<int64_t>& pads);
/// Elements [start, start + extent) of one axis.
Term part(const Term& x, int64_t axis, int64_t start, int64_t extent);
/// Sums over `axes`, which stay with extent 1.
Term sum(const Term& x, const std::vector<int64_t>& axes);
Term mean(const Term& x, const std::vector<int64_t>& axes);
/// The sum over what `shape` was broadcast along to the shape of x.
Term sum_to(const Term& x, const Shape& shape);
/// x of one number for each element of `axis` of a tensor of `rank` dimensions, seen as [1.., n, 1..].
Term along(const Term& x, int64_t axis, size_t rank);

}  // namespace tw::graph
