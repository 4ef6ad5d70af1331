#include "transform/fuse/clusters.h"

#include <algorithm>
#include <set>

#include "transform/reason_log.h"
#include "transform/storage_order.h"

namespace tw::transform {
namespace {

constexpr int kRowLookahead =
    4;  // nodes between a reduction and the broadcast of its result: scale, shift, sqrt, inverse

// [a, b, 1] of [a, b, c]: one element for each row.
bool is_row_of(const Shape& row, const Shape& whole) {
  if (row.size() != whole.size() || row == whole) return false;
  size_t d = 0;
  while (d < row.size() && row[d] == whole[d]) ++d;
  return std::all_of(row.begin() + static_cast<int64_t>(d), row.end(), [](int64_t extent) { return extent == 1; });
}

}  // namespace

Clusters::Clusters(const Graph& graph, const graph::OpTable& ops)
    : graph_(graph), producers_(graph.producers()), readers_(graph.consumers()), cluster_of_(graph.nodes.size(), -1) {
  for (const Node& node : graph.nodes) {
    roles_.push_back(role_of(ops, node));
    ++names_[node.name];
  }
}

std::string Clusters::name(int n) const {
  const Node& node = graph_.nodes[n];
  return names_.at(node.name) == 1 ? node.name : fmt::format("{} ({})", node.name, node.op);
}

bool Clusters::is_free(int n) const {
  return cluster_of_[n] < 0 && !graph_.nodes[n].is_group() && graph_.nodes[n].outputs.size() == 1;
}

bool Clusters::may_own_group(int n) const {
  return roles_[n] == Role::kElementwise || roles_[n] == Role::kReduction || roles_[n] == Role::kWindow ||
         roles_[n] == Role::kIndexMap || roles_[n] == Role::kPad;
}

int Clusters::open(int n) {
  clusters_.push_back({{}, shape(n)});
  const int c = static_cast<int>(clusters_.size()) - 1;
  join(c, n);
  return c;
}

void Clusters::join(int c, int n) {
  Cluster& cluster = clusters_[c];
  cluster.nodes.push_back(n);
  cluster_of_[n] = c;
  if (roles_[n] == Role::kContraction) cluster.contraction = n;
  if (roles_[n] != Role::kReduction && roles_[n] != Role::kWindow) return;
  cluster.row_spaces.push_back(shape(n));
  if (roles_[n] == Role::kReduction) cluster.row_spaces.push_back(data_shape(n));
}

void Clusters::follow(int c, int n) {
  join(c, n);
  ++clusters_[c].epilogue;
}

void Clusters::give_back(int c) {
  cluster_of_[clusters_[c].nodes.back()] = -1;
  clusters_[c].nodes.pop_back();
  --clusters_[c].epilogue;
}

bool Clusters::is_read_only_inside(ValueId value, int c) const {
  if (graph_.is_output(value) || readers_[value].empty()) return false;
  return std::ranges::all_of(readers_[value], [&](int r) { return cluster_of_[r] == c; });
}

// Distinct values that the cluster would read from outside with node `n` in it.
size_t Clusters::input_count(const Cluster& cluster, int n) const {
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
  return static_cast<size_t>(std::ranges::count_if(read, [&](ValueId v) { return inside.count(v) == 0; }));
}

RuleResult Clusters::has_room(int c, int n) const {
  const Cluster& cluster = clusters_[c];
  if (cluster.nodes.size() >= kMaxNodes)
    return because("room", "the group has {} operators, the most of one", kMaxNodes);
  const size_t inputs = input_count(cluster, n);
  if (inputs > kMaxInputs)
    return because("room", "the group would read {} values, the most of one are {}", inputs, kMaxInputs);
  return Rule("room");
}

// ---- Forwards: contraction and epilogue.

Why Clusters::no_follower(int n) const {
  switch (roles_[n]) {
    case Role::kContraction:
      return because("contraction", "{} is a contraction: it has tiles of its own", name(n));
    case Role::kReduction:
    case Role::kWindow:
      return because("tile", "{} combines elements of several tiles", name(n));
    case Role::kAlone:
      return why_alone(graph_, graph_.nodes[n]);
    case Role::kElementwise:
    case Role::kIndexMap:
    case Role::kPad:
    case Role::kLookup:
      break;
  }
  return because("order", "{} ({}) moves elements: a tile's result is stored as it is", name(n), graph_.nodes[n].op);
}

RuleResult Clusters::follows(int n, ValueId from) const {
  if (roles_[n] != Role::kElementwise) return no_follower(n);
  const graph::Value& out = graph_.value(output(n));
  const graph::Value& before = graph_.value(from);
  if (out.type.shape != before.type.shape)
    return because("shape", "{} has the shape {}, the tiles before it are of {}", name(n),
                   tw::to_string(out.type.shape), tw::to_string(before.type.shape));
  if (out.layout != before.layout)
    return because("layout", "{} is stored in another order than {}", out.name, before.name);
  for (const ValueId in : graph_.nodes[n].inputs) {
    if (in == kAbsent || in == from || graph_.value(in).is_kept()) continue;
    if (graph_.value(in).type.shape == out.type.shape && graph_.value(in).layout != out.layout)
      return because("layout", "{} reads {}, which is stored in another order", name(n), graph_.value(in).name);
  }
  return Rule("epilogue");
}

// ---- Backwards: what only the cluster reads.

RuleResult Clusters::takes_in(int c, int p) const {
  const RuleResult rule = may_join(c, p);
  if (!rule.ok()) return rule;
  const RuleResult room = has_room(c, p);
  return room.ok() ? rule : room;
}

RuleResult Clusters::may_join(int c, int p) const {
  if (roles_[p] == Role::kContraction) return because("contraction", "{} is a contraction: it owns its tiles", name(p));
  if (roles_[p] == Role::kAlone) return why_alone(graph_, graph_.nodes[p]);
  if (roles_[p] == Role::kReduction || roles_[p] == Role::kWindow) {
    RuleResult rows = joins_as_reduction(c, p);
    if (!rows.ok()) return rows;
  }
  RuleResult rule = because("read-elsewhere", "nothing reads {}", graph_.value(output(p)).name);
  std::vector<int> readers = readers_[output(p)];
  std::ranges::stable_partition(readers, [&](int r) { return cluster_of_[r] == c; });  // whose edge is asked about
  for (const int r : readers) {
    rule = joins_reader(c, p, r);
    if (!rule.ok()) return rule;
  }
  return rule;
}

RuleResult Clusters::joins_reader(int c, int p, int r) const {
  const bool elementwise = roles_[r] == Role::kElementwise;
  switch (roles_[p]) {
    case Role::kElementwise:
      return is_read_pointwise(c, p, r);
    case Role::kReduction:
    case Role::kWindow:
      if (elementwise) return Rule("reduction");
      return because("repeats", "{} combines elements: that is not done where {} reads the results", name(p), name(r));
    case Role::kIndexMap:
      if (roles_[r] == Role::kContraction && is_layout_copy(graph_.nodes[p]))
        return because(kCopyRule,
                       "{} reads the order that it wants: the copy takes less time than reading the other one",
                       name(r));
      if (elementwise || roles_[r] == Role::kContraction) return Rule("index-map");
      if (roles_[r] == Role::kIndexMap && graph_.nodes[r].inputs[0] == output(p)) return Rule("index-map");
      return because("order", "{} reads its data in the order in which it is stored", name(r));
    case Role::kLookup:
      if (clusters_[c].contraction >= 0)
        return because("lookup", "the tiles of a contraction read no table at places that are known at run time only");
      if (elementwise && shape(r) == shape(p)) return Rule("lookup");
      return because("lookup", "{} does not read {} at its own points", name(r), graph_.value(output(p)).name);
    case Role::kPad:
      if (roles_[r] == Role::kPad) return Rule("pad");
      return because("pad", "{} tests for each element whether it is padding: only other padding reads that in place",
                     name(p));
    case Role::kContraction:
    case Role::kAlone:
      break;
  }
  return why_alone(graph_, graph_.nodes[p]);
}

// Whether computing element-wise `p` where `r` reads it repeats no work: each element is read at one point.
RuleResult Clusters::is_read_pointwise(int c, int p, int r) const {
  const bool as_data = !graph_.nodes[r].inputs.empty() && graph_.nodes[r].inputs[0] == output(p);
  if (roles_[r] == Role::kReduction) {
    if (data_shape(r) == shape(p) && as_data) return Rule("map");
    return because("repeats", "{} reads {} again for each row", name(r), graph_.value(output(p)).name);
  }
  if ((roles_[r] == Role::kPad || is_layout_copy(graph_.nodes[r])) && as_data) return Rule("map");
  if (roles_[r] != Role::kElementwise)
    return roles_[r] == Role::kAlone
               ? why_alone(graph_, graph_.nodes[r])
               : because("repeats", "{} reads elements more than once, or moves them: {} would be computed again",
                         name(r), name(p));
  if (shape(r) == shape(p)) return Rule("map");
  if (clusters_[c].contraction >= 0)
    return because("repeats", "{} has the shape {} and would be computed again for each point of a tile", name(p),
                   tw::to_string(shape(p)));
  if (is_row_of(shape(p), shape(r)) && ends_in_reduction(p, shape(r), kRowLookahead)) return Rule("row");
  return because("repeats", "{} has the shape {} and is broadcast to {}", name(p), tw::to_string(shape(p)),
                 tw::to_string(shape(r)));
}

RuleResult Clusters::joins_as_reduction(int c, int p) const {
  const Cluster& cluster = clusters_[c];
  const Rule rule = "reduction";
  if (cluster.contraction >= 0)
    return because("contraction", "{} combines elements: the tiles of {} read such operands as they are stored",
                   name(p), name(cluster.contraction));
  if (shape(p) == cluster.space) return rule;
  const Why other = because("rows", "{} has rows of {}, the group's output is {}", name(p),
                            tw::to_string(data_shape(p)), tw::to_string(cluster.space));
  if (roles_[p] == Role::kWindow) return other;
  const auto known = [&](const Shape& s) {
    return std::ranges::find(cluster.row_spaces, s) != cluster.row_spaces.end();
  };
  if (known(shape(p))) return rule;
  const bool whole = data_shape(p) == cluster.space || known(data_shape(p));
  return whole && is_row_of(shape(p), data_shape(p)) ? RuleResult(rule) : RuleResult(other);
}

// Whether `p` is computed, within a few element-wise steps, from a reduction of data of shape `whole`.
bool Clusters::ends_in_reduction(int p, const Shape& whole, int steps) const {
  if (roles_[p] == Role::kReduction) return is_free(p) && data_shape(p) == whole;
  if (roles_[p] != Role::kElementwise || steps == 0) return false;
  return std::ranges::any_of(graph_.nodes[p].inputs, [&](ValueId in) {
    return in != kAbsent && producers_[in] >= 0 && ends_in_reduction(producers_[in], whole, steps - 1);
  });
}

Why why_alone(const Graph& graph, const Node& node) {
  const auto copied = [&](double bytes, std::string_view what) {
    Why why = because("view", "{} ({}) {}", node.name, node.op, what);
    why.numbers = {{"copied_bytes", bytes}};
    return why;
  };
  if (is_view(graph, node)) return copied(0, "is a view: no kernel, other shape or order of the same bytes");
  if (node.op == "reshape" || node.op == "identity")
    return copied(2.0 * static_cast<double>(graph.value(node.outputs[0]).type.bytes()),
                  "is a copy of its own: its operand is stored in another order");
  if (node.outputs.size() > 1) return because("alone", "{} computes {} values", node.name, node.outputs.size());
  return because("alone", "no rule takes {} ({}) into a group", node.name, node.op);
}

}  // namespace tw::transform
