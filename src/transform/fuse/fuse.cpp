// Fusion into groups of one output.
//
// Every group is grown so that all its values but one are read inside it only. Groups of one output cannot wait for
// each other in a circle: everything in a group leads to its output, so a circle of groups would be a circle of nodes.
// (Pass fuse-outputs then lets values leave a group beside its output.)
//
// 1. Contractions, the last first: the element-wise nodes that follow one by one, each the only reader of the one
// before.
// 2. What feeds these groups and nothing else: element-wise side branches, index maps of operands.
// 3. The rest, from the last node backwards: each node takes in what only its group reads, where the rules allow.
#include <algorithm>
#include <set>

#include "transform/fuse/clusters.h"
#include "transform/group.h"
#include "transform/passes.h"
#include "transform/storage_order.h"

namespace tw::transform {
namespace {

constexpr size_t kMaxBranch = 8;  // nodes between x and where the branches of x * f(x) meet: a GELU by tanh has 7

class Fuser {
 public:
  Fuser(Graph graph, const TransformContext& context)
      : graph_(std::move(graph)), clusters_(graph_, context.ops, context.target.kind) {}

  Fuser& grow() {
    const auto count = static_cast<int>(graph_.nodes.size());
    for (int n = count - 1; n >= 0; --n) {
      if (clusters_.is_free(n) && clusters_.role(n) == Role::kContraction) grow_epilogue(n);
    }
    for (size_t c = 0; c < clusters_.all().size(); ++c) take_in_producers(static_cast<int>(c));
    for (int n = count - 1; n >= 0; --n) {
      if (!clusters_.is_free(n) || !clusters_.may_own_group(n)) continue;
      take_in_producers(clusters_.open(n));
    }
    return *this;
  }

  int group_of(int n) const { return clusters_.cluster_of(n); }

  Graph groups() const {
    std::vector<std::vector<int>> groups;
    for (const Cluster& cluster : clusters_.all()) {
      if (cluster.nodes.size() < 2) continue;  // partition wraps single nodes
      groups.push_back(cluster.nodes);
      std::ranges::sort(groups.back());
    }
    return form_groups(graph_, groups);
  }

  // Why each edge is inside a group, or is not: by the rules, asked once more when all groups are known.
  void say_why(ReasonLog& log) const {
    for (size_t r = 0; r < graph_.nodes.size(); ++r) {
      for (const ValueId in : graph_.nodes[r].inputs) {
        const int p = in == kAbsent ? -1 : clusters_.producer(in);
        if (p < 0) continue;
        const int to = static_cast<int>(r), c = clusters_.cluster_of(to);
        const bool inside = c >= 0 && clusters_.cluster_of(p) == c;
        Why why = inside ? why_inside(c, p, to) : why_apart(in, p, to);
        if (const Why* stored = log.find_layout(graph_.value(in).name); stored != nullptr && why.rule == kCopyRule)
          why.numbers = stored->numbers;
        log.say(inside ? EdgeFate::kFused : EdgeFate::kApart, graph_, in, graph_.nodes[r], std::move(why));
      }
    }
  }

 private:
  ValueId output(int n) const { return graph_.nodes[n].outputs[0]; }
  std::string name(int n) const { return clusters_.name(n); }

  // ---- Forwards: contraction and epilogue.

  // The first node outside cluster `c` that reads one of `open`; -1 when one of these leaves the graph or has no
  // reader.
  int next_reader(int c, const std::set<ValueId>& open) const {
    int next = -1;
    for (const ValueId value : open) {
      if (graph_.is_output(value)) return -1;
      for (const int r : clusters_.readers(value)) {
        if (clusters_.cluster_of(r) != c && (next < 0 || r < next)) next = r;
      }
    }
    return next;
  }

  // Takes readers in order. The group may end wherever all that is open, read outside, is one value: after each node of
  // a chain, and where the branches of x * f(x) meet again. What lies behind the last such place is given back.
  void grow_epilogue(int contraction) {
    const int c = clusters_.open(contraction);
    std::set<ValueId> open = {output(contraction)};
    size_t pending = 0;
    while (pending <= kMaxBranch) {
      const int next = next_reader(c, open);
      if (next < 0 || !clusters_.is_free(next) || !clusters_.follows(next, output(contraction)).ok() ||
          !clusters_.has_room(c, next).ok())
        break;
      clusters_.follow(c, next);
      ++pending;
      open.insert(output(next));
      std::erase_if(open, [&](ValueId v) { return v != output(next) && clusters_.is_read_only_inside(v, c); });
      if (open.size() == 1) pending = 0;
    }
    for (; pending > 0; --pending) clusters_.give_back(c);
  }

  // ---- Backwards: what only the cluster reads.

  void take_in_producers(int c) {
    bool changed = true;
    while (changed) {
      changed = false;
      // From the last node backwards: a producer is looked at after all its readers inside.
      std::vector<int> nodes = clusters_[c].nodes;
      std::ranges::sort(nodes, std::greater<>());
      for (const int n : nodes) {
        for (const ValueId in : graph_.nodes[n].inputs) {
          const int p = in == kAbsent ? -1 : clusters_.producer(in);
          if (p < 0 || !clusters_.is_free(p) || !clusters_.is_read_only_inside(in, c) || !clusters_.takes_in(c, p).ok())
            continue;
          clusters_.join(c, p);
          changed = true;
        }
      }
    }
  }

  // ---- Reasons.

  bool is_in_epilogue(int c, int n) const {
    const auto first = clusters_[c].nodes.begin();
    const auto end = first + 1 + static_cast<std::ptrdiff_t>(clusters_[c].epilogue);
    return clusters_[c].contraction >= 0 && std::find(first, end, n) != end;
  }

  Why why_inside(int c, int p, int r) const {
    const std::string& value = graph_.value(output(p)).name;
    if (is_in_epilogue(c, p) && is_in_epilogue(c, r))
      return because("epilogue", "{} is computed behind the sums of {}, element by element", name(r),
                     name(clusters_[c].contraction));
    const RuleResult rule = clusters_.may_join(c, p);
    // A reduction that has joined is no longer ahead of what is computed once a row.
    const std::string_view by = rule.ok() ? *rule : "row";
    if (by == "reduction")
      return because(by, "{} combines rows of the group: its result is there when {} needs it", name(p), name(r));
    if (by == "row") return because(by, "{} is computed once for each row", name(p));
    if (by == "parts") return because(by, "{} reads {} in the parts of which {} joins it", name(r), value, name(p));
    if (by == "index-map" || by == "pad" || by == "lookup")
      return because(by, "{} reads {} through the index map of {}, or a copy made so", name(r), value, name(p));
    if (clusters_.role(r) == Role::kPad)
      return because(by, "{} reads one element of {} for each of its own, or has padding there", name(r), value);
    return because(by, "{} reads each element of {} at one point", name(r), value);
  }

  Why why_apart(ValueId value, int p, int r) const {
    const std::string& read = graph_.value(value).name;
    for (const int n : {p, r}) {
      const Node& node = graph_.nodes[n];
      if (node.outputs.size() != 1 || clusters_.role(n) == Role::kAlone || is_view(graph_, node))
        return why_alone(graph_, node);
    }
    const int from = clusters_.cluster_of(p), to = clusters_.cluster_of(r);
    if (from >= 0 && clusters_[from].contraction >= 0) {
      const RuleResult follows = clusters_.follows(r, output(clusters_[from].contraction));
      if (!follows.ok()) return follows.why();
    }
    if (to < 0) return clusters_.no_follower(r);
    if (from < 0 || clusters_[from].contraction < 0) {
      const RuleResult takes = clusters_.takes_in(to, p);
      if (!takes.ok()) return takes.why();
    }
    if (graph_.is_output(value))
      return because("leaves", "{} leaves the graph, and a group of this pass has one output", read);
    for (const int other : clusters_.readers(value)) {
      if (other != r && clusters_.cluster_of(other) != to)
        return because("read-elsewhere", "{} is also read by {}, and a group of this pass has one output", read,
                       name(other));
    }
    if (from >= 0 && clusters_[to].contraction >= 0)
      return because("contraction", "{} belongs to the group of {}, which has tiles of its own", name(r),
                     name(clusters_[to].contraction));
    if (from >= 0) {
      const RuleResult room = clusters_.has_room(from, r);
      if (!room.ok()) return room.why();
    }
    return because("taken", "{} belongs to another group already, and {} branches out over more than {} operators",
                   name(r), read, kMaxBranch);
  }

  const Graph graph_;
  Clusters clusters_;
};

// Whether node `n` reads its operands through index maps wherever it may: contractions and element-wise operators, and
// transposes that only these read.
bool reads_by_index(const Graph& graph, const graph::OpTable& ops, const std::vector<std::vector<int>>& readers,
                    int n) {
  const Node& node = graph.nodes[static_cast<size_t>(n)];
  const Role role = role_of(ops, node);
  if (role == Role::kContraction || role == Role::kElementwise) return true;
  return node.op == "transpose" && !graph.is_output(node.outputs[0]) &&
         std::ranges::all_of(readers[node.outputs[0]], [&](int r) { return reads_by_index(graph, ops, readers, r); });
}

bool keeps_rows(const Node& node) {
  return node.op == "transpose" && node.ints_attr("perm").back() == std::ssize(node.ints_attr("perm")) - 1;
}

// Whether each reader of what the node moves would read the whole through it: slices, and on GPUs, whose tiles bring
// operands in either order, what products read turned, beside whom others may read rows.
bool is_own_of_each_reader(const Graph& graph, const TransformContext& context,
                           const std::vector<std::vector<int>>& all, const Node& node) {
  const std::vector<int>& readers = all[node.outputs[0]];
  if (readers.empty() || graph.is_output(node.outputs[0])) return false;
  if (node.op == "slice")
    return std::ranges::all_of(readers, [&](int r) { return reads_by_index(graph, context.ops, all, r); });
  const bool maps = role_of(context.ops, node) == Role::kIndexMap && !is_layout_copy(node) && !is_view(graph, node);
  const auto role = [&](int r) { return role_of(context.ops, graph.nodes[static_cast<size_t>(r)]); };
  const auto multiplies = [&](int r) { return role(r) == Role::kContraction; };
  const auto reads_rows = [&](int r) { return keeps_rows(node) && role(r) == Role::kElementwise; };
  return context.target.kind == DeviceKind::kCuda && maps && std::ranges::any_of(readers, multiplies) &&
         std::ranges::all_of(readers, [&](int r) { return multiplies(r) || reads_rows(r); });
}

// An index map that several nodes read is one of each, so that each reads the whole through it, and through those
// before it: what is read in parts, or turned, by both passes of a training is never copied.
class OwnIndexMaps {
 public:
  OwnIndexMaps(const Graph& graph, const TransformContext& context) : graph_(graph), out_(graph) {
    const std::vector<std::vector<int>> readers = graph.consumers();
    out_.nodes.clear();
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      Node node = graph.nodes[n];
      const std::set<ValueId> read(node.inputs.begin(), node.inputs.end());
      for (const ValueId id : read) {
        if (maps_.contains(id) && readers[id].front() != static_cast<int>(n))
          std::ranges::replace(node.inputs, id, copy_of(id));
      }
      if (is_own_of_each_reader(graph, context, readers, graph.nodes[n])) maps_[node.outputs[0]] = &graph.nodes[n];
      out_.nodes.push_back(std::move(node));
    }
  }
  Graph result() && { return std::move(out_); }

 private:
  ValueId copy_of(ValueId id) {
    Node own = *maps_.at(id);
    for (ValueId& in : own.inputs) in = maps_.contains(in) ? copy_of(in) : in;
    own.outputs = {out_.add_value(graph_.value(id).name, graph_.value(id).type)};
    out_.values[own.outputs[0]].layout = graph_.value(id).layout;
    out_.nodes.push_back(own);
    return own.outputs[0];
  }

  const Graph& graph_;
  Graph out_;
  std::map<ValueId, const Node*> maps_;  // by their results
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

std::vector<int> grouping(const Graph& graph, const TransformContext& context) {
  Fuser fuser(graph, context);
  fuser.grow();
  std::vector<int> groups(graph.nodes.size());
  for (size_t n = 0; n < groups.size(); ++n) groups[n] = fuser.group_of(static_cast<int>(n));
  return groups;
}

Graph fuse(const Graph& graph, const TransformContext& context) {
  const Graph needed = graph::compact(graph);
  Fuser fuser(OwnIndexMaps(needed, context).result(), context);
  Graph groups = fuser.grow().groups();
  if (context.log != nullptr) fuser.say_why(*context.log);
  return align_inner_layouts(groups);
}

}  // namespace tw::transform
