// Fusion into groups of one output.
//
// Every group is grown so that all its values but one are read inside it only. Groups of one output cannot wait for
// each other in a circle: everything in a group leads to its output, so a circle of groups would be a circle of nodes.
//
// 1. Contractions, the last first: the element-wise nodes that follow one by one, each the only reader of the one
// before.
// 2. What feeds these groups and nothing else: element-wise side branches, index maps of operands.
// 3. The rest, from the last node backwards: each node takes in what only its group reads, as far as the rules allow.
#include <algorithm>
#include <set>

#include "support/error.h"
#include "transform/group.h"
#include "transform/passes.h"
#include "transform/roles.h"

namespace tw::transform {
namespace {

constexpr size_t kMaxNodes = 24;   // of a group: bounds the time to compile one
constexpr size_t kMaxInputs = 32;  // of a group: kernel parameters beyond registers cost more than they save
constexpr size_t kMaxBranch = 8;   // nodes between x and where the branches of x * f(x) meet: a GELU by tanh has 7
constexpr int kRowLookahead =
    4;  // nodes between a reduction and the broadcast of its result: scale, shift, sqrt, inverse

// A group while it grows.
struct Cluster {
  std::vector<int> nodes;
  Shape space;    // of its output: the iteration space of its element-wise nodes
  Layout layout;  // of its output
  bool contraction = false;
  bool reduction = false;
  std::vector<Shape> row_spaces;  // of data reduced inside, and of results broadcast again
};

class Fuser {
 public:
  Fuser(const Graph& graph, const graph::OpTable& ops)
      : graph_(graph), producers_(graph.producers()), readers_(graph.consumers()), cluster_of_(graph.nodes.size(), -1) {
    for (const Node& node : graph.nodes) roles_.push_back(is_layout_copy(node) ? Role::kAlone : role_of(ops, node));
  }

  Graph run() {
    const auto count = static_cast<int>(graph_.nodes.size());
    for (int n = count - 1; n >= 0; --n) {
      if (is_free(n) && roles_[n] == Role::kContraction) grow_epilogue(n);
    }
    for (size_t c = 0; c < clusters_.size(); ++c) take_in_producers(static_cast<int>(c));
    for (int n = count - 1; n >= 0; --n) {
      if (!is_free(n) || !may_own_group(n)) continue;
      take_in_producers(open_cluster(n));
    }
    std::vector<std::vector<int>> groups;
    for (Cluster& cluster : clusters_) {
      if (cluster.nodes.size() < 2) continue;  // partition wraps single nodes
      std::sort(cluster.nodes.begin(), cluster.nodes.end());
      groups.push_back(cluster.nodes);
    }
    return form_groups(graph_, groups);
  }

 private:
  bool is_free(int n) const {
    return cluster_of_[n] < 0 && !graph_.nodes[n].is_group() && graph_.nodes[n].outputs.size() == 1;
  }
  bool may_own_group(int n) const {
    return roles_[n] == Role::kElementwise || roles_[n] == Role::kReduction || roles_[n] == Role::kWindow ||
           roles_[n] == Role::kIndexMap || roles_[n] == Role::kPad;
  }
  ValueId output(int n) const { return graph_.nodes[n].outputs[0]; }
  const Shape& shape(int n) const { return graph_.value(output(n)).type.shape; }
  const Shape& data_shape(int n) const { return graph_.value(graph_.nodes[n].inputs[0]).type.shape; }

  int open_cluster(int n) {
    Cluster cluster;
    cluster.space = shape(n);
    cluster.layout = graph_.value(output(n)).layout;
    clusters_.push_back(std::move(cluster));
    join(static_cast<int>(clusters_.size()) - 1, n);
    return static_cast<int>(clusters_.size()) - 1;
  }

  void join(int c, int n) {
    Cluster& cluster = clusters_[c];
    cluster.nodes.push_back(n);
    cluster_of_[n] = c;
    cluster.contraction = cluster.contraction || roles_[n] == Role::kContraction;
    if (roles_[n] != Role::kReduction && roles_[n] != Role::kWindow) return;
    cluster.reduction = true;
    cluster.row_spaces.push_back(shape(n));
    if (roles_[n] == Role::kReduction) cluster.row_spaces.push_back(data_shape(n));
  }

  // Distinct values that the cluster would read from outside with node `n` in it.
  size_t input_count(const Cluster& cluster, int n) const {
    std::set<ValueId> inside;
    std::set<ValueId> read;
    const auto add = [&](int node) {
      for (const ValueId out : graph_.nodes[node].outputs) inside.insert(out);
      for (const ValueId in : graph_.nodes[node].inputs) {
        if (in != kAbsent) read.insert(in);
      }
    };
    for (const int node : cluster.nodes) add(node);
    add(n);
    return static_cast<size_t>(
        std::count_if(read.begin(), read.end(), [&](ValueId v) { return inside.count(v) == 0; }));
  }

  bool has_room(const Cluster& cluster, int n) const {
    return cluster.nodes.size() < kMaxNodes && input_count(cluster, n) <= kMaxInputs;
  }

  // ---- Forwards: contraction and epilogue.

  // Whether element-wise node `n` may follow the contraction's result `from` point by point: same shape and layout;
  // operands of the same shape are stored alike.
  bool follows(int n, ValueId from) const {
    const graph::Value& out = graph_.value(output(n));
    const graph::Value& before = graph_.value(from);
    if (roles_[n] != Role::kElementwise || out.type.shape != before.type.shape || out.layout != before.layout)
      return false;
    const std::vector<ValueId>& inputs = graph_.nodes[n].inputs;
    return std::all_of(inputs.begin(), inputs.end(), [&](ValueId in) {
      if (in == kAbsent || in == from || graph_.value(in).is_constant()) return true;
      return graph_.value(in).type.shape != out.type.shape || graph_.value(in).layout == out.layout;
    });
  }

  // The first node outside cluster `c` that reads one of `open`; -1 when one of these leaves the graph or has no
  // reader.
  int next_reader(int c, const std::set<ValueId>& open) const {
    int next = -1;
    for (const ValueId value : open) {
      if (graph_.is_output(value)) return -1;
      for (const int r : readers_[value]) {
        if (cluster_of_[r] != c && (next < 0 || r < next)) next = r;
      }
    }
    return next;
  }

  // Takes readers in order. The group may end wherever all that is open, read outside, is one value: after each node of
  // a chain, and where the branches of x * f(x) meet again. What lies behind the last such place is given back.
  void grow_epilogue(int contraction) {
    const int c = open_cluster(contraction);
    std::set<ValueId> open = {output(contraction)};
    std::vector<int> pending;
    while (pending.size() <= kMaxBranch) {
      const int next = next_reader(c, open);
      if (next < 0 || !is_free(next) || !follows(next, output(contraction)) || !has_room(clusters_[c], next)) break;
      join(c, next);
      pending.push_back(next);
      open.insert(output(next));
      std::erase_if(open, [&](ValueId v) { return v != output(next) && read_only_inside_cluster(v, c); });
      if (open.size() == 1) pending.clear();
    }
    for (const int n : pending) {
      cluster_of_[n] = -1;
      clusters_[c].nodes.pop_back();
    }
  }

  // ---- Backwards: what only the cluster reads.

  bool read_only_inside(int n, int c) const { return read_only_inside_cluster(output(n), c); }

  bool read_only_inside_cluster(ValueId value, int c) const {
    if (graph_.is_output(value) || readers_[value].empty()) return false;
    return std::all_of(readers_[value].begin(), readers_[value].end(), [&](int r) { return cluster_of_[r] == c; });
  }

  void take_in_producers(int c) {
    bool changed = true;
    while (changed) {
      changed = false;
      // From the last node backwards: a producer is looked at after all its readers inside.
      std::vector<int> nodes = clusters_[c].nodes;
      std::sort(nodes.begin(), nodes.end(), std::greater<>());
      for (const int n : nodes) {
        for (const ValueId in : graph_.nodes[n].inputs) {
          const int p = in == kAbsent ? -1 : producers_[in];
          if (p < 0 || !is_free(p) || !read_only_inside(p, c) || !may_join(c, p) || !has_room(clusters_[c], p))
            continue;
          join(c, p);
          changed = true;
        }
      }
    }
  }

  bool may_join(int c, int p) const {
    const std::vector<int>& readers = readers_[output(p)];
    const auto all_readers = [&](auto accepts) { return std::all_of(readers.begin(), readers.end(), accepts); };
    switch (roles_[p]) {
      case Role::kElementwise:
        return all_readers([&](int r) { return reads_pointwise(c, p, r); });
      case Role::kReduction:
      case Role::kWindow:
        return joins_as_reduction(c, p) && all_readers([&](int r) { return roles_[r] == Role::kElementwise; });
      case Role::kIndexMap:
        return all_readers([&](int r) { return takes_index_map(p, r); });
      case Role::kLookup:
        return !clusters_[c].contraction &&
               all_readers([&](int r) { return roles_[r] == Role::kElementwise && shape(r) == shape(p); });
      case Role::kPad:
        return all_readers([&](int r) { return roles_[r] == Role::kPad; });
      case Role::kContraction:
      case Role::kAlone:
        return false;
    }
    return false;
  }

  // Whether computing element-wise `p` where `r` reads it repeats no work: each element is read at one point.
  bool reads_pointwise(int c, int p, int r) const {
    if (roles_[r] == Role::kReduction) return data_shape(r) == shape(p) && graph_.nodes[r].inputs[0] == output(p);
    if (roles_[r] == Role::kPad) return graph_.nodes[r].inputs[0] == output(p);
    if (roles_[r] != Role::kElementwise) return false;
    if (shape(r) == shape(p)) return true;
    return !clusters_[c].contraction && is_row_of(shape(p), shape(r)) && ends_in_reduction(p, shape(r), kRowLookahead);
  }

  bool takes_index_map(int p, int r) const {
    if (roles_[r] == Role::kElementwise || roles_[r] == Role::kContraction) return true;
    return roles_[r] == Role::kIndexMap && graph_.nodes[r].inputs[0] == output(p);
  }

  bool joins_as_reduction(int c, int p) const {
    const Cluster& cluster = clusters_[c];
    if (cluster.contraction) return false;
    if (shape(p) == cluster.space) return true;
    if (roles_[p] == Role::kWindow) return false;
    const auto known = [&](const Shape& s) {
      return std::find(cluster.row_spaces.begin(), cluster.row_spaces.end(), s) != cluster.row_spaces.end();
    };
    if (known(shape(p))) return true;
    const bool whole = data_shape(p) == cluster.space || known(data_shape(p));
    return whole && is_row_of(shape(p), data_shape(p));
  }

  // [a, b, 1] of [a, b, c]: one element for each row.
  static bool is_row_of(const Shape& row, const Shape& whole) {
    if (row.size() != whole.size() || row == whole) return false;
    size_t d = 0;
    while (d < row.size() && row[d] == whole[d]) ++d;
    return std::all_of(row.begin() + static_cast<int64_t>(d), row.end(), [](int64_t extent) { return extent == 1; });
  }

  // Whether `p` is computed, within a few element-wise steps, from a reduction of data of shape `whole`.
  bool ends_in_reduction(int p, const Shape& whole, int steps) const {
    if (roles_[p] == Role::kReduction) return is_free(p) && data_shape(p) == whole;
    if (roles_[p] != Role::kElementwise || steps == 0) return false;
    const std::vector<ValueId>& inputs = graph_.nodes[p].inputs;
    return std::any_of(inputs.begin(), inputs.end(), [&](ValueId in) {
      return in != kAbsent && producers_[in] >= 0 && ends_in_reduction(producers_[in], whole, steps - 1);
    });
  }

  const Graph& graph_;
  std::vector<int> producers_;
  std::vector<std::vector<int>> readers_;
  std::vector<Role> roles_;
  std::vector<int> cluster_of_;
  std::vector<Cluster> clusters_;
};

// Values inside a group have no storage of their own: they follow the group's output where shapes are equal, so that
// loops over both are the same loops.
Graph align_inner_layouts(const Graph& graph) {
  Graph result = graph;
  for (Node& node : result.nodes) {
    if (!node.is_group() || node.body->outputs.size() != 1) continue;
    Graph body = *node.body;
    const graph::Value out = body.value(body.outputs[0]);
    for (const Node& inner : body.nodes) {
      for (const ValueId id : inner.outputs) {
        body.values[id].layout = body.value(id).type.shape == out.type.shape ? out.layout : Layout();
      }
    }
    node.body = std::make_shared<const Graph>(std::move(body));
  }
  return result;
}

}  // namespace

Graph fuse(const Graph& graph, const TransformContext& context) {
  const Graph sorted = graph::compact(graph);
  return align_inner_layouts(Fuser(sorted, context.ops).run());
}

}  // namespace tw::transform
