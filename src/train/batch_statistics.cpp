#include "train/batch_statistics.h"

#include <algorithm>

#include "support/error.h"
#include "support/join.h"

namespace tw::train {
namespace {

using graph::Node;
using graph::Term;
using graph::ValueId;

constexpr double kMomentum = 0.9;  // ONNX's

class Rewriter {
 public:
  Rewriter(graph::Graph& graph, const graph::OpTable& ops, const std::vector<ValueId>& running)
      : graph_(graph), builder_(graph, ops) {
    for (const ValueId id : running) followed_.push_back({id, id});
  }

  std::vector<Followed> run() {
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (Node& node : nodes) {
      if (node.op == "batch_norm" && follow(node.inputs.at(3)) && follow(node.inputs.at(4))) rewrite(node);
      graph_.nodes.push_back(std::move(node));
    }
    std::erase_if(followed_, [](const Followed& f) { return f.next == f.running; });
    return std::move(followed_);
  }

 private:
  Followed* follow(ValueId id) {
    const auto found = std::ranges::find(followed_, id, &Followed::running);
    return found == followed_.end() ? nullptr : &*found;
  }

  // What is computed of the batch stands before the node.
  void rewrite(Node& node) {
    builder_.name_after(node.name);
    const Term x = graph::widened(builder_.term(node.inputs[0]));
    const Shape shape = x.shape();
    const int64_t count = shape[1] == 0 ? 0 : x.type().elements() / shape[1];
    if (count < 2)
      throw UserError(
          "node '{}' (BatchNormalization): a channel of {} has {} element{} in the batch, and training needs "
          "2 or more: take a larger batch, or keep the model's statistics (--frozen-statistics)",
          node.name, to_string(x.type()), count, count == 1 ? "" : "s");
    const std::vector<int64_t> axes = filtered(sequence(shape.size()), [](int64_t d) { return d != 1; });
    const graph::Terms batch = builder_.emit("mean_variance", {x}, {{"axes", axes}, {"keepdims", int64_t{0}}});
    const double momentum = node.float_attr_or("momentum", kMomentum);
    node.inputs[3] = next_of(*follow(node.inputs[3]), batch[0], momentum);
    node.inputs[4] = next_of(*follow(node.inputs[4]), batch[1], momentum);
  }

  // The batch's own, in the type of the running one.
  ValueId next_of(Followed& statistic, const Term& batch, double momentum) {
    const Term before = builder_.term(statistic.next);
    const Term own = graph::cast(batch, before.element());
    statistic.next = (before * momentum + own * (1 - momentum)).id();
    return own.id();
  }

  graph::Graph& graph_;
  graph::GradientBuilder builder_;
  std::vector<Followed> followed_;
};

}  // namespace

void part_statistics(graph::Graph& graph) {
  const auto is_copy = [&](ValueId id) {
    const int producer = graph.producer(id);
    return producer >= 0 && graph.nodes[static_cast<size_t>(producer)].op == "identity";
  };
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].op != "batch_norm") continue;
    for (const size_t slot : {3, 4}) {
      ValueId id = graph.nodes[n].inputs.at(slot);
      while (is_copy(id)) id = graph.nodes[static_cast<size_t>(graph.producer(id))].inputs[0];
      // The same layer twice has one statistic; what is read as something else, too, is no statistic.
      const auto is_other = [&](const Node& node) {
        const auto at = static_cast<size_t>(index_of(node.inputs, id));
        return at < node.inputs.size() && (node.op != "batch_norm" || at != slot);
      };
      const bool is_shared = id != graph.nodes[n].inputs[slot] || std::ranges::any_of(graph.nodes, is_other);
      if (!graph.value(id).is_constant() || !is_shared) continue;
      graph::Value own = graph.value(id);
      own.name = graph::NameSet(graph).unique(graph.nodes[n].name + (slot == 3 ? ".mean" : ".variance"));
      graph.values.push_back(std::move(own));
      graph.nodes[n].inputs[slot] = static_cast<ValueId>(graph.values.size()) - 1;
    }
  }
}

std::vector<ValueId> running_statistics(const graph::Graph& graph) {
  std::vector<ValueId> all;
  for (const Node& node : graph.nodes) {
    if (node.op != "batch_norm") continue;
    const ValueId mean = node.inputs.at(3), variance = node.inputs.at(4);
    if (!graph.value(mean).is_constant() || !graph.value(variance).is_constant()) continue;
    for (const ValueId id : {mean, variance}) {
      if (std::ranges::count(all, id) == 0) all.push_back(id);
    }
  }
  return all;
}

std::vector<Followed> use_batch_statistics(graph::Graph& graph, const graph::OpTable& ops,
                                           const std::vector<ValueId>& running) {
  return Rewriter(graph, ops, running).run();
}

}  // namespace tw::train
