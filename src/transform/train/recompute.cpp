#include "transform/train/recompute.h"

#include <algorithm>
#include <set>

#include "support/error.h"

namespace tw::transform {
namespace {

class Recomputer {
 public:
  Recomputer(Graph& graph, const graph::OpTable& ops, size_t forward)
      : graph_(graph), ops_(ops), forward_(forward), producers_(graph.producers()), names_(graph) {}

  Recomputed run(const Recompute& what) {
    find_kept();
    choose(what);
    Recomputed out;
    for (const ValueId id : again_) {
      if (!kept_[id]) continue;
      ++out.values;
      out.bytes += graph_.value(id).type.bytes();
    }
    rewrite();
    return out;
  }

 private:
  bool is_forward(ValueId id) const {
    const int producer = producers_[static_cast<size_t>(id)];
    return producer >= 0 && static_cast<size_t>(producer) < forward_;
  }
  const Node& producer(ValueId id) const { return graph_.nodes[static_cast<size_t>(producers_[id])]; }

  void find_kept() {
    kept_.assign(graph_.values.size(), false);
    for (size_t n = forward_; n < graph_.nodes.size(); ++n) {
      for (const ValueId in : graph_.nodes[n].inputs) {
        if (in != kAbsent && is_forward(in)) kept_[in] = true;
      }
    }
    product_.assign(graph_.values.size(), false);
    for (size_t n = 0; n < forward_; ++n) {
      const Node& node = graph_.nodes[n];
      if (ops_.at(node.op).op_class != graph::OpClass::kContraction) continue;
      for (const ValueId out : node.outputs) product_[out] = true;
    }
  }

  // Elements that are read to compute it once more.
  double work(ValueId id) const {
    double elements = 0;
    for (const ValueId in : producer(id).inputs) {
      if (in != kAbsent) elements += static_cast<double>(graph_.value(in).type.elements());
    }
    return std::max(elements, 1.0);
  }

  void choose(const Recompute& what) {
    std::vector<ValueId> cheap, products;
    double bytes = 0;
    for (size_t n = 0; n < forward_; ++n) {
      for (const ValueId id : graph_.nodes[n].outputs) {
        const bool is_small = graph_.value(id).type.bytes() < kSmallBytes;
        if (is_small || graph_.is_output(id) || (!kept_[id] && !product_[id])) continue;
        (product_[id] ? products : cheap).push_back(id);
        if (!product_[id]) bytes += static_cast<double>(graph_.value(id).type.bytes());
      }
    }
    const auto gain = [&](ValueId id) { return static_cast<double>(graph_.value(id).type.bytes()) / work(id); };
    std::ranges::stable_sort(cheap, std::greater<>(), gain);
    double chosen = 0;
    for (const ValueId id : cheap) {
      if (chosen >= what.cheap * bytes) break;
      chosen += static_cast<double>(graph_.value(id).type.bytes());
      again_.insert(id);
    }
    for (size_t k = 0; what.every > 1 && k < products.size(); ++k) {
      if (static_cast<int64_t>(k) % what.every != 0) again_.insert(products[k]);
    }
  }

  // Nodes of the backward pass in order, each behind what it reads again.
  void rewrite() {
    std::vector<Node> backward(std::make_move_iterator(graph_.nodes.begin() + static_cast<std::ptrdiff_t>(forward_)),
                               std::make_move_iterator(graph_.nodes.end()));
    graph_.nodes.resize(forward_);
    for (Node& node : backward) {
      for (ValueId& in : node.inputs) {
        if (again_.contains(in)) in = again(in);
      }
      graph_.nodes.push_back(std::move(node));
    }
  }

  // The value, computed once more, and before it whatever is not kept. Results of products that nobody read are kept
  // from now on, unless they are chosen, too.
  ValueId again(ValueId id) {
    if (!is_forward(id)) return id;
    if (!again_.contains(id) && (kept_[id] || product_[id])) return id;
    if (const auto known = copies_.find(id); known != copies_.end()) return known->second;
    Node copy = producer(id);
    const std::vector<ValueId> before = copy.outputs;
    for (ValueId& in : copy.inputs) {
      if (in != kAbsent) in = again(in);
    }
    copy.attrs[kAgain] = int64_t{1};
    copy.outputs.clear();
    std::vector<TensorType> types;
    for (const ValueId out : before) types.push_back(graph_.value(out).type);
    const std::vector<ValueId> outputs = graph_.add_node(std::move(copy), types, &names_);
    for (size_t k = 0; k < outputs.size(); ++k) copies_.emplace(before[k], outputs[k]);
    return copies_.at(id);
  }

  Graph& graph_;
  const graph::OpTable& ops_;
  const size_t forward_;
  const std::vector<int> producers_;
  graph::NameSet names_;
  std::vector<bool> kept_;     // by later nodes
  std::vector<bool> product_;  // of forward values
  std::set<ValueId> again_;
  std::map<ValueId, ValueId> copies_;
};

}  // namespace

Recomputed recompute(Graph& graph, const graph::OpTable& ops, size_t forward, const Recompute& what) {
  TW_CHECK(forward <= graph.nodes.size(), "{} of {} nodes", forward, graph.nodes.size());
  return what.is_off() ? Recomputed{} : Recomputer(graph, ops, forward).run(what);
}

}  // namespace tw::transform
