#include "transform/train/differentiate.h"

#include <fmt/ranges.h>

#include <set>

#include "graph/gradient.h"
#include "support/error.h"
#include "support/join.h"

namespace tw::transform {
namespace {

using graph::Gradient;
using graph::GradientCall;
using graph::Graph;
using graph::kAbsent;
using graph::Node;
using graph::OpTable;
using graph::Term;
using graph::Terms;
using graph::ValueId;

class Differentiator {
 public:
  Differentiator(Graph& graph, const OpTable& ops, ValueId loss, std::span<const ValueId> wanted)
      : graph_(graph), ops_(ops), builder_(graph, ops), loss_(loss), wanted_(wanted.begin(), wanted.end()) {}

  std::vector<ValueId> run() {
    require_floats();
    find_dependent();
    const std::vector<int> path = nodes_to_loss();
    gradients_.resize(graph_.values.size());
    const size_t before = graph_.nodes.size();
    if (dependent_[loss_]) gradients_[loss_] = builder_.filled(1, graph_.value(loss_).type);
    for (const int n : path) propagate(n);
    const std::vector<ValueId> results = mapped(wanted_, [&](ValueId v) { return gradient_of(v).id(); });
    // Of several results of a node some may not depend on what is wanted, and only its rule knows.
    graph::drop_unneeded(graph_, before, results);
    return results;
  }

 private:
  void require_floats() const {
    const TensorType& loss = graph_.value(loss_).type;
    if (!loss.type.is_float() || loss.elements() != 1)
      throw UserError("the loss '{}' is {}, expected one float", graph_.value(loss_).name, to_string(loss));
    for (const ValueId v : wanted_) {
      const graph::Value& value = graph_.value(v);
      if (!value.type.type.is_float())
        throw UserError("the gradient of '{}' is wanted, which is {}: only floats have gradients", value.name,
                        to_string(value.type));
    }
  }

  const Gradient& gradient_rule(const Node& node) const {
    TW_CHECK(!node.is_group(), "the gradient of group '{}': graphs are differentiated before they have groups",
             node.name);
    return ops_.at(node.op).gradient;
  }

  // Which values depend on what is wanted by a path along which gradients pass. An integer ends it, but for what a
  // refused operator makes (words of numbers, bits): behind that lies a loss that cannot be differentiated.
  void find_dependent() {
    dependent_.assign(graph_.values.size(), false);
    for (const ValueId v : wanted_) dependent_[v] = true;
    const auto is_float = [&](ValueId v) { return graph_.value(v).type.type.is_float(); };
    for (const Node& node : graph_.nodes) {
      bool reads = false, reads_words = false;
      for (const ValueId in : node.inputs) {
        if (in == kAbsent || !dependent_[in]) continue;
        reads = true;
        reads_words = reads_words || !is_float(in);
      }
      const Gradient::Kind kind = reads ? gradient_rule(node).kind : Gradient::Kind::kZero;
      if (kind == Gradient::Kind::kZero) continue;
      const bool any = reads_words || kind != Gradient::Kind::kRule;
      for (const ValueId out : node.outputs) dependent_[out] = dependent_[out] || any || is_float(out);
    }
  }

  // The nodes between what is wanted and the loss, last one first. Throws Unsupported naming those without a rule.
  std::vector<int> nodes_to_loss() const {
    std::vector<int> path;
    std::vector<bool> needed(graph_.values.size(), false);
    needed[loss_] = dependent_[loss_];
    std::set<std::string> refused;
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      const Node& node = graph_.nodes[n];
      bool is_needed = false, depends = false;
      for (const ValueId out : node.outputs) is_needed = is_needed || (needed[out] && dependent_[out]);
      for (const ValueId in : node.inputs) depends = depends || (in != kAbsent && dependent_[in]);
      if (!is_needed || !depends) continue;
      for (const ValueId in : node.inputs) {
        if (in != kAbsent && dependent_[in]) needed[in] = true;
      }
      const Gradient& gradient = gradient_rule(node);
      if (gradient.kind == Gradient::Kind::kRule) {
        path.push_back(static_cast<int>(n));
      } else if (gradient.kind != Gradient::Kind::kZero) {
        refused.insert(fmt::format("node '{}' ({}): {}", node.name, node.op,
                                   gradient.reason.empty() ? "it has no gradient" : gradient.reason));
      }
    }
    if (!refused.empty()) throw Unsupported("the loss cannot be differentiated:\n  {}", fmt::join(refused, "\n  "));
    return path;
  }

  // From the results of a node to its inputs.
  void propagate(int n) {
    const Node node = graph_.nodes[n];  // a copy: nodes are appended
    const auto term = [&](ValueId id) { return builder_.term(id); };
    GradientCall call{.call = graph::make_call(graph_, node),
                      .builder = builder_,
                      .inputs = mapped(node.inputs, term),
                      .outputs = mapped(node.outputs, term),
                      .gradients = mapped(node.outputs, [&](ValueId out) { return gradients_[out]; }),
                      .wanted = {}};
    bool reached = false;
    for (const Term& dy : call.gradients) reached = reached || dy;
    if (!reached) return;
    for (const ValueId in : node.inputs) call.wanted.push_back(in != kAbsent && dependent_[in]);
    builder_.name_after(node.name);
    const Terms results = ops_.at(node.op).gradient.rule(call);
    TW_CHECK(results.size() == node.inputs.size(), "the gradient of '{}' ({}) has {} terms for {} inputs", node.name,
             node.op, results.size(), node.inputs.size());
    for (size_t k = 0; k < results.size(); ++k) {
      if (call.wanted[k] && results[k]) add(node, node.inputs[k], results[k]);
    }
  }

  void add(const Node& node, ValueId input, const Term& gradient) {
    const TensorType type = graph_.value(input).type;
    const Term summed = sum_to(gradient, type.shape);
    TW_CHECK(summed.type() == type, "the gradient of '{}' ({}) is {} for an input of {}", node.name, node.op,
             to_string(summed.type()), to_string(type));
    gradients_[input] = sum_of(gradients_[input], summed);
  }

  Term gradient_of(ValueId v) {
    builder_.name_after(graph_.value(v).name);
    if (!gradients_[v]) gradients_[v] = builder_.filled(0, graph_.value(v).type);
    return gradients_[v];
  }

  Graph& graph_;
  const OpTable& ops_;
  graph::GradientBuilder builder_;
  ValueId loss_;
  std::vector<ValueId> wanted_;
  std::vector<bool> dependent_;  // by value, of those that were there before
  Terms gradients_;              // by value; nothing yet: zero
};

}  // namespace

std::vector<ValueId> differentiate(Graph& graph, const OpTable& ops, ValueId loss, std::span<const ValueId> wanted) {
  return Differentiator(graph, ops, loss, wanted).run();
}

}  // namespace tw::transform
