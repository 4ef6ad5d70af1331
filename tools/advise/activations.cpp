#include "advise/activations.h"

#include <algorithm>
#include <set>

#include "transform/passes.h"
#include "transform/roles.h"

namespace tw::advise {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

constexpr size_t kMostNodes = 12;  // of one activation: GELU by tanh has 9 in most models
constexpr std::string_view kActivations[] = {"relu",     "leaky_relu", "elu",  "selu",     "celu", "clip",
                                             "softplus", "softsign",   "tanh", "sigmoid",  "gelu", "hard_sigmoid",
                                             "silu",     "hard_swish", "mish", "gelu_tanh"};

class Finder {
 public:
  Finder(const Graph& model, const transform::TransformContext& context)
      : model_(model), context_(context), producers_(model.producers()) {}

  std::vector<Activation> run() {
    std::vector<Activation> found;
    for (int n = static_cast<int>(model_.nodes.size()); n-- > 0;) {
      if (taken_.contains(n) || !is_elementwise(n)) continue;
      if (std::optional<Activation> activation = match(n)) found.push_back(std::move(*activation));
    }
    for (const Activation& a : found) results_.insert(a.result);
    for (Activation& a : found) {
      std::set<ValueId> seen;
      find_contractions(a.source, seen, a.contractions);
    }
    std::erase_if(found, [](const Activation& a) { return a.contractions.empty(); });
    std::ranges::reverse(found);
    return found;
  }

 private:
  const Node& node(int n) const { return model_.nodes[static_cast<size_t>(n)]; }
  bool is_elementwise(int n) const { return transform::is_pointwise(context_.ops, node(n)); }

  // Takes node after node, the last one first, until all of them read one value and are an activation of it.
  std::optional<Activation> match(int last) {
    std::set<int> nodes;
    std::set<ValueId> read;
    for (int next = last; nodes.size() < kMostNodes; next = last_producer(read)) {
      if (next < 0 || !is_elementwise(next)) return std::nullopt;
      nodes.insert(next);
      read.erase(node(next).outputs[0]);
      for (const ValueId id : node(next).inputs) {
        if (id != graph::kAbsent && !model_.value(id).is_constant()) read.insert(id);
      }
      if (read.size() != 1) continue;
      const std::string op = operator_of(nodes, *read.begin(), node(last).outputs[0]);
      if (op.empty()) continue;
      taken_.insert(nodes.begin(), nodes.end());
      return Activation{op, *read.begin(), node(last).outputs[0]};
    }
    return std::nullopt;
  }

  int last_producer(const std::set<ValueId>& values) const {
    int last = -1;
    for (const ValueId id : values) last = std::max(last, producers_[static_cast<size_t>(id)]);
    return last;
  }

  // The activation that the nodes are together; empty: none.
  std::string operator_of(const std::set<int>& nodes, ValueId source, ValueId result) const {
    Graph alone;
    std::map<ValueId, ValueId> ids = {{source, alone.add_input(model_.value(source).name, model_.value(source).type)}};
    for (const int n : nodes) {
      Node copy = node(n);
      for (ValueId& id : copy.inputs) {
        if (id == graph::kAbsent) continue;
        const auto [known, fresh] = ids.try_emplace(id);
        const graph::Value& value = model_.value(id);
        if (fresh) known->second = alone.add_constant(value.name, value.type, value.constant);
        id = known->second;
      }
      copy.outputs.clear();
      ids[node(n).outputs[0]] = append_node(alone, context_.ops, std::move(copy)).front();
    }
    alone.outputs = {ids.at(result)};
    const Graph canonical = transform::canonicalize(alone, context_);
    const bool is_one = canonical.nodes.size() == 1 && canonical.nodes[0].inputs[0] == canonical.inputs[0];
    if (!is_one || std::ranges::count(kActivations, canonical.nodes[0].op) == 0) return "";
    return canonical.nodes[0].op;
  }

  void find_contractions(ValueId value, std::set<ValueId>& seen, std::vector<int>& found) const {
    const int n = producers_[static_cast<size_t>(value)];
    if (n < 0 || results_.contains(value) || !seen.insert(value).second) return;
    const graph::OpClass op_class = context_.ops.at(node(n).op).op_class;
    if (op_class == graph::OpClass::kContraction) found.push_back(n);
    if (op_class != graph::OpClass::kElementwise) return;
    for (const ValueId id : node(n).inputs) {
      if (id != graph::kAbsent) find_contractions(id, seen, found);
    }
  }

  const Graph& model_;
  const transform::TransformContext& context_;
  std::vector<int> producers_;
  std::set<int> taken_;
  std::set<ValueId> results_;  // of activations
};

}  // namespace

std::vector<Activation> find_activations(const Graph& model, const transform::TransformContext& context) {
  return Finder(model, context).run();
}

}  // namespace tw::advise
