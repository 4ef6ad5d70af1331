// Values that leave a group beside its last one. After pass fuse every group has one output; where that is read by a
// group that could compute on it at once, and by others, the two become one group with both values as outputs: the
// value is stored as before, and not read again. So do groups without such an edge that read one value at the same
// points. An extra output costs its store only, which the value has paid already.
//
// Pass fuse-row-sums does the same afterwards with rows that are reduced and sums of their columns, which makes one
// kernel of what two have read: of a norm's gradient, and those of its scale and bias.
//
// With several outputs groups could wait for each other in a circle: a pair joins only where no path leads from the one
// to the other through a third group.
#include <algorithm>
#include <array>
#include <set>

#include "schedule/match/one_kernel.h"
#include "support/join.h"
#include "transform/fuse/cluster_order.h"
#include "transform/fuse/clusters.h"
#include "transform/fuse/group_program.h"
#include "transform/group.h"
#include "transform/passes.h"
#include "transform/storage_order.h"

namespace tw::transform {
namespace {

// Names of rules.
constexpr std::string_view kPointsRule = "points", kRowsRule = "statistics", kColumnsRule = "column-sums",
                           kRowSumsRule = "row-sums", kSiblingsRule = "siblings";

// What a node, or the nodes of its group, compute.
struct Kind {
  int nodes = 0, contractions = 0, reductions = 0, others = 0;  // the last ones share kernels with nobody
  bool is_pointwise() const { return contractions == 0 && reductions == 0 && others == 0; }
};

// Which kernels a pass makes.
enum class Kernels : uint8_t { kUsual, kRowSums };

class OutputFuser {
 public:
  OutputFuser(const Graph& graph, const TransformContext& context, Kernels kernels)
      : graph_(graph),
        context_(context),
        makes_row_sums_(kernels == Kernels::kRowSums),
        producers_(graph.producers()),
        readers_(graph.consumers()),
        clusters_(graph) {
    for (const Node& node : graph.nodes) kinds_.push_back(kind_of(node));
  }

  Graph run() {
    // Element-wise groups first: what reads a stored value and others of its size, as an optimizer's update does, is
    // one kernel of its own instead of stores of the tiles that compute the value.
    for (const Joins which : {Joins::kPoints, Joins::kAll}) {
      for (bool changed = true; changed;) changed = join_once(which);
    }
    if (context_.log != nullptr) say_of_joined();
    std::vector<std::vector<int>> groups = clusters_.all();
    std::erase_if(groups, [](const auto& nodes) { return nodes.size() < 2; });
    return merge_groups(graph_, groups);
  }

 private:
  Kind kind_of(const Node& node) const {
    Kind kind;
    const auto add = [&](const Node& one) {
      if (node.is_group() && one.op == "reshape") return;  // an index map, that its group reads through
      const Role role = role_of(context_.ops, one);
      ++kind.nodes;
      kind.contractions += role == Role::kContraction ? 1 : 0;
      kind.reductions += role == Role::kReduction || role == Role::kWindow ? 1 : 0;
      const bool alone = role == Role::kAlone || role == Role::kUpdate || context_.ops.at(one.op).te == nullptr;
      kind.others += alone ? 1 : 0;
    };
    if (!node.is_group()) add(node);
    if (node.is_group()) std::ranges::for_each(node.body->nodes, add);
    kind.others += is_view(graph_, node) ? 1 : 0;
    return kind;
  }

  enum class Joins : uint8_t { kPoints, kAll };

  bool join_once(Joins which) {
    bool changed = false;
    for (size_t r = 0; r < graph_.nodes.size(); ++r) {
      for (const ValueId in : graph_.nodes[r].inputs) changed = join_edge(in, static_cast<int>(r), which) || changed;
    }
    for (size_t v = 0; v < graph_.values.size(); ++v) changed = join_siblings(static_cast<ValueId>(v)) || changed;
    return changed;
  }

  // ---- Edges.

  // Whether the groups at both ends of the edge became one.
  bool join_edge(ValueId value, int r, Joins which) {
    const int p = value == kAbsent ? -1 : producers_[value];
    if (p < 0 || clusters_.of(p) == clusters_.of(r)) return false;
    const int from = clusters_.of(p), to = clusters_.of(r);
    const Kind &before = kinds_[from], &after = kinds_[to];
    if (which == Joins::kPoints && !(before.is_pointwise() && after.is_pointwise())) return false;
    // What has no place in any kernel of the other is said by pass fuse; so is what alone reads a value.
    if (before.others + after.others > 0 || !(makes_row_sums_ || leaves(value, from, to))) return false;
    const RuleResult rule = joins(value, from, to);
    if (!rule.ok()) {
      if (!makes_row_sums_) say(value, r, rule);  // what was said of other kernels stays
      return false;
    }
    unite(from, to);
    joined_.push_back({value, r, *rule});
    return true;
  }

  // Whether the value would leave the two as one, or one of them has several outputs already.
  bool leaves(ValueId value, int from, int to) const {
    const auto is_inside = [&](int r) { return clusters_.of(r) == from || clusters_.of(r) == to; };
    return graph_.is_output(value) || clusters_.members(from).size() + clusters_.members(to).size() > 2 ||
           !std::ranges::all_of(readers_[value], is_inside);
  }

  // "m leaves the graph", "m is read by 3 groups".
  std::string uses_of(ValueId value) const {
    const size_t count = readers_[value].size();
    const std::string& name = graph_.value(value).name;
    if (graph_.is_output(value)) return name + " leaves the graph";
    return fmt::format("{} is read by {} group{}", name, count, count == 1 ? "" : "s");
  }

  // A state changes in its place, which is worth more than a reading saved: where its group has one output, or computes
  // points of one shape alone, whose kernel reads all of a point before it stores any.
  RuleResult keeps_place(ValueId value, int a, int b) const {
    const int changing = changes_state(a) ? a : b;
    if (!changes_state(changing) || (has_only_points_of(value, a) && has_only_points_of(value, b))) return kPointsRule;
    return because("state", "the group of {} changes a state in its place, and {} is no value at the same points alone",
                   name_of(changing), name_of(changing == a ? b : a));
  }

  // Whether the cluster is element-wise, all of it at the points of `value` and stored like it.
  bool has_points_of(ValueId value, int cluster) const {
    const graph::Value& at = graph_.value(value);
    return kinds_[cluster].is_pointwise() && std::ranges::all_of(clusters_.members(cluster), [&](int n) {
             return std::ranges::all_of(graph_.nodes[n].outputs, [&](ValueId out) {
               return graph_.value(out).type.shape == at.type.shape && graph_.value(out).layout == at.layout;
             });
           });
  }

  // The same of what it does not store.
  bool has_only_points_of(ValueId value, int cluster) const {
    const Shape& shape = graph_.value(value).type.shape;
    return has_points_of(value, cluster) && std::ranges::all_of(clusters_.members(cluster), [&](int n) {
             const Node& node = graph_.nodes[n];
             return !node.is_group() || std::ranges::all_of(node.body->nodes, [&](const Node& inner) {
               return node.body->value(inner.outputs[0]).type.shape == shape;
             });
           });
  }

  bool changes_state(int cluster) const {
    return std::ranges::any_of(clusters_.members(cluster), [&](int n) {
      return std::ranges::any_of(graph_.nodes[n].outputs, [&](ValueId out) {
        return std::ranges::find(context_.states, graph_.value(out).name, &StateNames::after) != context_.states.end();
      });
    });
  }

  RuleResult joins(ValueId value, int from, int to) {
    const std::string &name = graph_.value(value).name, &reader = name_of(to);
    if (kinds_[to].contractions > 0)
      return because("contraction",
                     "{}, and the group of {} has a contraction: only what follows its sums is stored beside them",
                     uses_of(value), reader);
    if (kinds_[from].contractions > 0 && kinds_[to].reductions > 0)
      return because("tile", "{}, and the group of {} combines elements of several tiles", uses_of(value), reader);
    if (const RuleResult stays = keeps_place(value, from, to); !stays.ok()) return stays;
    if (kinds_[from].contractions > 1 || (kinds_[from].contractions > 0 && kinds_[from].reductions > 0))
      return because("chain", "{}, and the blocks of the group of {} have one output", uses_of(value), name_of(from));
    const RuleResult apart = may_unite(from, to);
    if (!apart.ok()) return apart;
    const Layout& layout = graph_.value(value).layout;
    for (const int r : clusters_.members(to)) {
      for (const ValueId out : graph_.nodes[r].outputs) {
        const graph::Value& other = graph_.value(out);
        if (other.type.shape == graph_.value(value).type.shape && other.layout != layout)
          return because("layout", "{} is stored in another order than {}: a tile stores in one", other.name, name);
      }
    }
    const Result<schedule::Beside> kernel = one_kernel(from, to);
    if (!kernel.ok())
      return because("kernel", "{}, and no kernel has it as an output beside that of {}: {}", uses_of(value), reader,
                     kernel.reason());
    if ((*kernel == schedule::Beside::kRowSums) != makes_row_sums_)
      return because("kernel",
                     "{}, and rows of {} are reduced beside sums of columns, which is pass fuse-row-sums' matter",
                     uses_of(value), name);
    return rule_of(*kernel);
  }

  static Rule rule_of(schedule::Beside beside) {
    switch (beside) {
      case schedule::Beside::kRows:
        return kRowsRule;
      case schedule::Beside::kColumns:
        return kColumnsRule;
      case schedule::Beside::kRowSums:
        return kRowSumsRule;
      default:
        return kPointsRule;
    }
  }

  // Whether pass fuse said no more than that groups have one output.
  bool is_about_outputs(ValueId value, const Node& reader, const Why& refusal) const {
    constexpr std::array<std::string_view, 7> kRules = {"leaves", "read-elsewhere", "taken", "repeats",
                                                        "rows",   "kernel",         "cycle"};
    const Why* why = context_.log->find_of_group(EdgeFate::kApart, graph_, value, reader);
    // That it would be computed again is more than that the reader has tiles of its own.
    const bool again = why != nullptr && (why->rule == "repeats" || why->rule == "rows");
    if (again && (refusal.rule == "contraction" || refusal.rule == "tile")) return false;
    return why == nullptr || std::ranges::find(kRules, why->rule) != kRules.end();
  }

  void say(ValueId value, int r, const RuleResult& rule) const {
    if (context_.log == nullptr || (!rule.ok() && !is_about_outputs(value, graph_.nodes[r], rule.why()))) return;
    const std::string& name = graph_.value(value).name;
    const auto is_inside = [&](int n) { return clusters_.of(n) == clusters_.of(r); };
    const bool leaves = graph_.is_output(value) || !std::ranges::all_of(readers_[value], is_inside);
    const std::string_view too = leaves ? ", which leaves the kernel, too" : "";
    const Why why = !rule.ok()             ? rule.why()
                    : *rule == kPointsRule ? because(*rule, "computed where {} is{}", name, too)
                    : *rule == kRowsRule   ? because(*rule, "{} is one of the rows' statistics, or has some", name)
                    : *rule == kRowSumsRule
                        ? because(*rule, "blocks that take rows of {} in turns sum their columns in parts", name)
                        : because(*rule, "tiles that compute {} sum its columns in parts", name);
    context_.log->say_of_group(rule.ok() ? EdgeFate::kFused : EdgeFate::kApart, graph_, value, graph_.nodes[r], why);
  }

  // Of edges that were joined, when all are; then of those whose ends came together by way of others.
  void say_of_joined() const {
    for (const Joined& edge : joined_) say(edge.value, edge.reader, edge.rule);
    for (size_t r = 0; r < graph_.nodes.size(); ++r) {
      for (const ValueId in : graph_.nodes[r].inputs) {
        const int p = in == kAbsent ? -1 : producers_[in];
        const bool inside = p >= 0 && clusters_.of(p) == clusters_.of(r);
        if (!inside || context_.log->find_of_group(EdgeFate::kFused, graph_, in, graph_.nodes[r]) != nullptr) continue;
        const Shape& space = graph_.value(graph_.nodes[r].outputs[0]).type.shape;
        say(in, static_cast<int>(r), graph_.value(in).type.shape == space ? kPointsRule : kRowsRule);
      }
    }
  }

  // ---- Siblings.

  // Element-wise groups of one space that read `value` at its points.
  bool join_siblings(ValueId value) {
    if (graph_.value(value).is_constant()) return false;
    bool joined = false;
    const std::vector<int>& readers = readers_[value];
    for (size_t i = 0; i < readers.size(); ++i) {
      for (size_t j = i + 1; j < readers.size(); ++j) {
        const int a = clusters_.of(readers[i]), b = clusters_.of(readers[j]);
        if (a == b || !are_siblings(value, a, b).ok()) continue;
        unite(a, b);
        joined = true;
      }
    }
    return joined;
  }

  // Or those that sum its columns, the same factors or others.
  RuleResult are_siblings(ValueId value, int a, int b) {
    const Why other = because(kSiblingsRule, "groups of another space");
    const bool sums = reduces(a) && reduces(b);
    if (!sums && (makes_row_sums_ || !has_points_of(value, a) || !has_points_of(value, b))) return other;
    if (clusters_.between(b, a) != ClusterOrder::kNone)
      return because("cycle", "{} needs what {} computes", name_of(a), name_of(b));
    const RuleResult apart = may_unite(a, b);
    if (!apart.ok()) return apart;
    const Result<schedule::Beside> kernel = one_kernel(a, b);
    if (!kernel.ok()) return because("kernel", "{}", kernel.reason());
    const auto wanted = makes_row_sums_ ? schedule::Beside::kRowSums : schedule::Beside::kSums;
    return sums && *kernel != wanted ? RuleResult(other) : RuleResult(kSiblingsRule);
  }

  // Reductions and what they read point by point; of columns or rows is a matter of the kernel.
  bool reduces(int cluster) const {
    const Kind& kind = kinds_[cluster];
    return kind.reductions > 0 && kind.contractions == 0 && kind.others == 0 && !changes_state(cluster);
  }

  // ---- What both have in common.

  // An operator of the cluster, which keeps its name whatever becomes of the group: the last one.
  const std::string& name_of(int cluster) const {
    const Node& last = graph_.nodes[std::ranges::max(clusters_.members(cluster))];
    return last.is_group() ? last.body->nodes.back().name : last.name;
  }

  // Room, and no path from `from` to `to` but that of a single edge.
  RuleResult may_unite(int from, int to) {
    const int nodes = kinds_[from].nodes + kinds_[to].nodes;
    if (nodes > static_cast<int>(kMaxNodes))
      return because("room", "the group would have {} operators, the most of one are {}", nodes, kMaxNodes);
    const size_t values = values_around(from, to);
    if (values > kMaxInputs)
      return because("room", "the group would read and write {} values, the most of one are {}", values, kMaxInputs);
    const int third = clusters_.between(from, to);
    if (third == ClusterOrder::kFar)
      return because("far", "more than {} groups follow {} before {} comes", kMaxSearch, name_of(from), name_of(to));
    if (third != ClusterOrder::kNone)
      return because("cycle", "{} needs {} and is needed by {}: one group would wait for itself", name_of(third),
                     name_of(from), name_of(to));
    return Rule("room");
  }

  // Values that the two together would read or write, constants too.
  size_t values_around(int from, int to) const {
    std::set<ValueId> read, made, left;
    const std::vector<int> nodes = both(from, to);
    for (const int n : nodes) {
      read.insert(graph_.nodes[n].inputs.begin(), graph_.nodes[n].inputs.end());
      for (const ValueId out : graph_.nodes[n].outputs) {
        made.insert(out);
        const bool inside =
            std::ranges::all_of(readers_[out], [&](int r) { return clusters_.of(r) == from || clusters_.of(r) == to; });
        if (!inside || graph_.is_output(out)) left.insert(out);
      }
    }
    read.erase(kAbsent);
    for (const ValueId v : made) read.erase(v);
    return read.size() + left.size();
  }

  std::vector<int> both(int from, int to) const {
    std::vector<int> nodes = clusters_.members(from);
    nodes.insert(nodes.end(), clusters_.members(to).begin(), clusters_.members(to).end());
    std::ranges::sort(nodes);
    return nodes;
  }

  // The nodes as a graph of their own, which leaves what others read.
  Graph cut_out(const std::vector<int>& nodes) const {
    Graph out;
    std::map<ValueId, ValueId> inner = {{kAbsent, kAbsent}};
    const auto take = [&](ValueId id) {
      const auto [found, fresh] = inner.try_emplace(id, static_cast<ValueId>(out.values.size()));
      if (fresh) out.values.push_back(graph_.value(id));
      return found->second;
    };
    for (const int n : nodes) {
      Node node = graph_.nodes[n];
      for (ValueId& in : node.inputs) in = take(in);
      for (ValueId& made : node.outputs) made = take(made);
      out.nodes.push_back(std::move(node));
    }
    const auto inside = [&](int n) { return std::ranges::binary_search(nodes, n); };
    for (const auto& [id, own] : inner) {
      if (id == kAbsent) continue;
      const bool is_made = producers_[id] >= 0 && inside(producers_[id]);
      if (!is_made && !graph_.value(id).is_constant()) out.inputs.push_back(own);
      if (is_made && (graph_.is_output(id) || !std::ranges::all_of(readers_[id], inside))) out.outputs.push_back(own);
    }
    return out;
  }

  // Of equal pairs, as the steps of a recurrence have them, once.
  const Result<schedule::Beside>& one_kernel(int from, int to) {
    const std::vector<int> nodes = both(from, to);
    const Graph alone = cut_out(nodes);
    const auto [known, fresh] = kernels_.try_emplace(shape_of_group(alone), Reason{});
    if (fresh) {
      std::vector<int> all = sequence<int>(nodes.size());
      const Graph merged = merge_groups(alone, {all});
      const bool by_blocks = context_.target.kind == DeviceKind::kCuda;
      known->second = schedule::one_kernel(stored_program(*merged.nodes.front().body, context_.ops),
                                           by_blocks ? schedule::Combines::kRowsAlone : schedule::Combines::kAny);
    }
    return known->second;
  }

  void unite(int from, int to) {
    clusters_.unite(from, to);
    kinds_[from].nodes += kinds_[to].nodes;
    kinds_[from].contractions += kinds_[to].contractions;
    kinds_[from].reductions += kinds_[to].reductions;
  }

  struct Joined {
    ValueId value;
    int reader;
    std::string_view rule;
  };

  const Graph& graph_;
  const TransformContext& context_;
  const bool makes_row_sums_;
  std::vector<int> producers_;
  std::vector<std::vector<int>> readers_;
  ClusterOrder clusters_;
  std::vector<Kind> kinds_;  // by cluster
  std::vector<Joined> joined_;
  std::map<std::string, Result<schedule::Beside>> kernels_;  // by shape_of_group() of both
};

}  // namespace

Graph fuse_outputs(const Graph& graph, const TransformContext& context) {
  const Graph sorted = graph::compact(graph);
  return OutputFuser(sorted, context, Kernels::kUsual).run();
}

Graph fuse_row_sums(const Graph& graph, const TransformContext& context) {
  const Graph sorted = graph::compact(graph);
  return OutputFuser(sorted, context, Kernels::kRowSums).run();
}

}  // namespace tw::transform
