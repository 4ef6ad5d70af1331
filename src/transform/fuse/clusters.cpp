#include "transform/fuse/clusters.h"

#include <set>

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

Clusters::Clusters(const Graph& graph, const graph::OpTable& ops, DeviceKind target)
    : graph_(graph),
      target_(target),
      producers_(graph.producers()),
      readers_(graph.consumers()),
      cluster_of_(graph.nodes.size(), -1) {
  for (const Node& node : graph.nodes) {
    roles_.push_back(role_of(ops, node));
    // On CPUs loops over parts are faster than loops that ask for each element which part it is of.
    if (roles_.back() == Role::kJoin && target == DeviceKind::kCpu) roles_.back() = Role::kAlone;
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
         roles_[n] == Role::kIndexMap || roles_[n] == Role::kPad || roles_[n] == Role::kJoin ||
         roles_[n] == Role::kUpdate;
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
    case Role::kUpdate:
      return why_alone(graph_, graph_.nodes[n]);
    case Role::kElementwise:
    case Role::kIndexMap:
    case Role::kPad:
    case Role::kJoin:
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
  const bool alone = roles_[p] == Role::kAlone && graph_.nodes[p].op != "reshape";
  if (alone || roles_[p] == Role::kUpdate) return why_alone(graph_, graph_.nodes[p]);
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
      return joins_as_move(c, p, r, output(p));
    case Role::kLookup:
      if (clusters_[c].contraction >= 0)
        return because("lookup", "the tiles of a contraction read no table at places that are known at run time only");
      if (elementwise && shape(r) == shape(p)) return Rule("lookup");
      return because("lookup", "{} does not read {} at its own points", name(r), graph_.value(output(p)).name);
    case Role::kPad:
      if (roles_[r] == Role::kPad) return Rule("pad");
      return because("pad", "{} tests for each element whether it is padding: only other padding reads that in place",
                     name(p));
    case Role::kJoin:
      return joins_as_parts(c, p, r, output(p));
    case Role::kAlone:
      return joins_as_reshape(c, p, r);
    case Role::kContraction:
    case Role::kUpdate:
      break;
  }
  return why_alone(graph_, graph_.nodes[p]);
}

// Index map `p`, whose result is `read`, or a reshape of it: what it reads is read in another order, or in part.
RuleResult Clusters::joins_as_move(int c, int p, int r, ValueId read) const {
  if (roles_[r] == Role::kContraction && is_layout_copy(graph_.nodes[p]))
    return because(kCopyRule, "{} reads the order that it wants: the copy takes less time than reading the other one",
                   name(r));
  if (roles_[r] == Role::kElementwise || roles_[r] == Role::kContraction || roles_[r] == Role::kJoin)
    return Rule("index-map");
  const bool as_data = graph_.nodes[r].inputs[0] == read;
  if (roles_[r] == Role::kIndexMap && as_data) return Rule("index-map");
  const bool as_update = roles_[r] == Role::kUpdate && std::ranges::count(graph_.nodes[r].inputs, read) == 1 &&
                         graph_.nodes[r].inputs[1] == read;
  if (as_update) return Rule("index-map");
  if (is_reshape_inside(c, r)) return Rule("index-map");
  if (roles_[r] == Role::kReduction && as_data && target_ == DeviceKind::kCuda && keeps_rows(p))
    return Rule("index-map");
  return because("order", "{} reads its data in the order in which it is stored", name(r));
}

// The same of concat `p`, of few parts: who alone reads each element at one place asks there which part it is of.
RuleResult Clusters::joins_as_parts(int c, int p, int r, ValueId read) const {
  if (graph_.nodes[p].inputs.size() > kMaxParts)
    return because("parts", "{} has {} parts, the most that are read in place are {}", name(p),
                   graph_.nodes[p].inputs.size(), kMaxParts);
  if (readers_[output(p)].size() > 1)
    return because("parts", "{} has {} readers, each of which would ask which part an element is of", name(p),
                   readers_[output(p)].size());
  if (clusters_[c].contraction >= 0)
    return because("parts", "the tiles of a contraction read one value, not parts of several");
  const graph::Value &made = graph_.value(output(r)), &joined = graph_.value(read);
  const bool same = made.type.shape == joined.type.shape && made.layout == joined.layout;
  const bool as_data = graph_.nodes[r].inputs[0] == read;
  if ((roles_[r] == Role::kElementwise && same) || roles_[r] == Role::kJoin || is_reshape_inside(c, r))
    return Rule("parts");
  if ((roles_[r] == Role::kReduction || roles_[r] == Role::kIndexMap) && as_data) return Rule("parts");
  return because("parts", "{} does not read {} at its own points", name(r), joined.name);
}

// A reshape of what would be copied: the copy is left out, and its reader computes where it reads. On GPUs, where rows
// stay rows: a thread divides once for many elements.
RuleResult Clusters::joins_as_reshape(int c, int p, int r) const {
  const Node& node = graph_.nodes[p];
  const int before = node.op == "reshape" ? producers_[node.inputs[0]] : -1;
  const bool moves = before >= 0 && (roles_[before] == Role::kIndexMap || roles_[before] == Role::kJoin) &&
                     (is_free(before) || cluster_of_[before] == c) && readers_[node.inputs[0]].size() == 1 &&
                     !graph_.is_output(node.inputs[0]) && !is_view(graph_, graph_.nodes[before]);
  if (target_ != DeviceKind::kCuda || !moves || !keeps_rows(p)) return why_alone(graph_, node);
  if (roles_[r] == Role::kContraction && !keeps_matrices(p)) return why_alone(graph_, node);
  return roles_[before] == Role::kJoin ? joins_as_parts(c, before, r, output(p))
                                       : joins_as_move(c, before, r, output(p));
}

bool Clusters::is_reshape_inside(int c, int r) const { return graph_.nodes[r].op == "reshape" && cluster_of_[r] == c; }

// Whether the last dim of what `p` makes runs along the last one of what it reads, all of it.
bool Clusters::keeps_rows(int p) const {
  const Node& node = graph_.nodes[p];
  const Shape &from = data_shape(p), &to = shape(p);
  if (from.empty() || to.empty() || from.back() != to.back()) return false;
  return node.op != "transpose" || node.ints_attr("perm").back() == std::ssize(from) - 1;
}

// The same of the last two dims.
bool Clusters::keeps_matrices(int p) const {
  const Shape &from = data_shape(p), &to = shape(p);
  return from.size() >= 2 && to.size() >= 2 && std::equal(from.end() - 2, from.end(), to.end() - 2);
}

// Whether computing element-wise `p` where `r` reads it repeats no work: each element is read at one point.
RuleResult Clusters::is_read_pointwise(int c, int p, int r) const {
  const bool as_data = !graph_.nodes[r].inputs.empty() && graph_.nodes[r].inputs[0] == output(p);
  if (roles_[r] == Role::kReduction) {
    if (data_shape(r) == shape(p) && as_data) return Rule("map");
    return because("repeats", "{} reads {} again for each row", name(r), graph_.value(output(p)).name);
  }
  if ((roles_[r] == Role::kPad || is_layout_copy(graph_.nodes[r])) && as_data) return Rule("map");
  if (roles_[r] == Role::kJoin) return Rule("map");
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

// Whether a GPU's threads can share the rows of all reductions: those that leave as many results have rows as long, and
// none adds up what rows of others leave.
bool Clusters::has_rows_of(const Cluster& cluster, int p) const {
  if (target_ != DeviceKind::kCuda || roles_[p] != Role::kReduction) return true;
  return std::ranges::all_of(cluster.nodes, [&](int n) {
    if (roles_[n] != Role::kReduction) return true;
    return shape(n) == shape(p) ? data_shape(n) == data_shape(p) : data_shape(n) != shape(p);
  });
}

RuleResult Clusters::joins_as_reduction(int c, int p) const {
  const Cluster& cluster = clusters_[c];
  const Rule rule = "reduction";
  if (cluster.contraction >= 0)
    return because("contraction", "{} combines elements: the tiles of {} read such operands as they are stored",
                   name(p), name(cluster.contraction));
  const Why other = because("rows", "{} has rows of {}, the group's output is {}", name(p),
                            tw::to_string(data_shape(p)), tw::to_string(cluster.space));
  if (!has_rows_of(cluster, p)) return other;
  if (shape(p) == cluster.space) return rule;
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
