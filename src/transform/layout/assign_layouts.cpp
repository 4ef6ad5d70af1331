// Storage layouts of intermediate values (mechanism A4): row-major or channels last, as the least-cost labelling of the
// whole graph has it (layout_problem.h), or what a plan says. Whoever reads a value reads it in its own layout, so any
// choice is correct; where a reader has a layout of its own, an identity transpose copies the value to it: a group of
// its own, shared by all such readers. What leaves the graph is row-major, a state's next value stored as the state.
#include <limits>

#include "graph/error_output.h"
#include "support/join.h"
#include "transform/layout/layout_costs.h"
#include "transform/layout/layout_problem.h"
#include "transform/passes.h"
#include "transform/storage_order.h"

namespace tw::transform {
namespace {

Layout last_of(const graph::Value& value) { return channels_last(static_cast<int>(value.type.shape.size())); }

/// Layouts by number: of values as their nodes write them, of reads from copies by node and input.
struct Assigned {
  std::vector<Layout> values;
  std::map<std::pair<int, size_t>, Layout> reads;
};

std::vector<StateEnds> ends_of(const Graph& graph, const std::vector<StateNames>& states) {
  return mapped(states, [&](const StateNames& s) {
    const StateEnds ends{graph.find_value(s.before), s.changes() ? graph.find_value(s.after) : kAbsent};
    TW_CHECK(ends.before != kAbsent && (ends.after != kAbsent) == s.changes(), "the state '{}' is gone", s.before);
    return ends;
  });
}

/// What a plan says of a graph's values, and what is left to say.
class Known {
 public:
  Known(const Graph& graph, const std::vector<StateEnds>& states, const ValueLayouts* plan)
      : graph_(graph), plan_(plan) {
    for (const Node& node : graph.nodes) {
      for (const ValueId out : node.outputs) add(out);
    }
    for (const StateEnds& state : states) add(state.before);
  }

  KnownOrders orders() const {
    KnownOrders orders;
    for (const auto& [id, layout] : values_) {
      if (const auto order = order_of(id, *layout)) orders.values[id] = *order;
    }
    each_read([&](int n, size_t i, ValueId id, const Layout& layout) {
      if (const auto order = order_of(id, layout)) orders.reads[{n, i}] = *order;
    });
    return orders;
  }

  void apply(Assigned& assigned) const {
    for (const auto& [id, layout] : values_) assigned.values[id] = *layout;
    each_read([&](int n, size_t i, ValueId id, const Layout& layout) {
      assigned.reads.erase({n, i});
      if (layout != assigned.values[id]) assigned.reads[{n, i}] = layout;
    });
  }

 private:
  void add(ValueId id) {
    if (const Layout* layout = find_layout(plan_, graph_.value(id))) values_[id] = layout;
  }

  std::optional<bool> order_of(ValueId id, const Layout& layout) const {
    if (layout.is_identity()) return false;
    return layout == last_of(graph_.value(id)) ? std::optional(true) : std::nullopt;
  }

  // Reads by nodes and of values that the plan knows.
  template <typename Visit>
  void each_read(const Visit& visit) const {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (!values_.contains(node.outputs.front())) continue;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const auto value = values_.find(node.inputs[i]);
        if (value == values_.end()) continue;
        const graph::Value& read = graph_.value(value->first);
        const auto own = plan_->reads.find({graph_.value(node.outputs.front()).name, static_cast<int64_t>(i)});
        const bool is_copy = own != plan_->reads.end() && fits(own->second, read.type.shape);
        visit(static_cast<int>(n), i, value->first, is_copy ? own->second : *value->second);
      }
    }
  }

  const Graph& graph_;
  const ValueLayouts* plan_;
  std::map<ValueId, const Layout*> values_;
};

Assigned assigned_by(const Graph& graph, const LayoutChoice& choice) {
  Assigned assigned;
  for (size_t id = 0; id < graph.values.size(); ++id)
    assigned.values.push_back(choice.channels_last[id] ? last_of(graph.values[id]) : Layout());
  for (const OrderedRead& r : choice.reads) {
    const ValueId id = graph.nodes[static_cast<size_t>(r.node)].inputs[r.input];
    if (r.channels_last != choice.channels_last[id])
      assigned.reads[{r.node, r.input}] = r.channels_last ? last_of(graph.value(id)) : Layout();
  }
  return assigned;
}

void note(const Graph& graph, const std::vector<StateEnds>& states, const Assigned& assigned, ValueLayouts& chosen) {
  for (const StateEnds& state : states) chosen.values[graph.value(state.before).name] = assigned.values[state.before];
  for (const Node& node : graph.nodes) {
    for (const ValueId out : node.outputs) chosen.values[graph.value(out).name] = assigned.values[out];
  }
  for (const auto& [read, layout] : assigned.reads) {
    const Node& node = graph.nodes[static_cast<size_t>(read.first)];
    chosen.reads[{graph.value(node.outputs.front()).name, static_cast<int64_t>(read.second)}] = layout;
  }
}

class LayoutAssigner {
 public:
  LayoutAssigner(const Graph& graph, const std::vector<StateEnds>& states, const LayoutChoice& choice,
                 const Assigned& assigned, const TargetInfo& target)
      : graph_(graph), choice_(choice), assigned_(assigned), target_(target) {
    for (const StateEnds& state : states) {
      if (state.after != kAbsent) state_of_[state.after] = state.before;
      for (const ValueId id : {state.before, state.after}) {
        if (id == kAbsent) continue;
        kept_as_[id] = assigned.values[state.before];
        graph_.values[id].layout = kept_as_[id];
      }
    }
  }

  Graph run() {
    before_ = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (size_t n = 0; n < before_.size(); ++n) {
      Node node = before_[n];
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] != graph::kAbsent) node.inputs[i] = input(static_cast<int>(n), i, node.inputs[i]);
      }
      std::vector<ValueId> leaving;
      for (ValueId& out : node.outputs) {
        if (is_copied_out(out)) leaving.push_back(out);
        out = stored(out);
      }
      graph_.nodes.push_back(std::move(node));
      for (const ValueId out : leaving) add_copy(stored(out), out);
    }
    return graph::compact(graph_);
  }

  // After run(): why each value is stored as it is.
  void say_why(ReasonLog& log, const Graph& before) const {
    const LayoutCosts costs(before, target_);
    const std::vector<int> producers = before.producers();
    for (size_t i = 0; i < before.values.size(); ++i) {
      const auto id = static_cast<ValueId>(i);
      const graph::Value& value = before.value(id);
      if (value.is_constant()) continue;
      Why why = why_stored(value, id, producers[id] < 0 ? nullptr : &before.nodes[producers[id]]);
      Why outside = why_left(before, id);
      for (Why* fixed : {&why, &outside}) {  // what has no choice: the other order is a copy
        if (fixed->numbers.empty()) fixed->numbers = {{kOther, has_order(value) ? costs.conversion_ns(id) : 0}};
      }
      log.say_layout(value.name, before.is_output(id) && !is_state(id) ? outside : why);
      if (const auto stored = stored_.find(id); stored != stored_.end())
        log.say_layout(graph_.value(stored->second).name, why);
      for (const auto& [copied, copy] : copies_) {
        if (copied.first != id) continue;
        Why because_of = why_copied(value, id);
        if (because_of.numbers.empty()) because_of.numbers = {{kOther, 0}};
        log.say_layout(graph_.value(copy).name, std::move(because_of));
      }
    }
  }

 private:
  static constexpr const char* kOther = "next_best_unit_ns";  // of one unit: layout_costs.h

  // An entry of an artefact takes the states of those before it as if a plan said so.
  std::string_view by_plan() const {
    return kept_as_.empty() ? "the plan that is replayed says so"
                            : "the plan that is replayed says so, or a state that another entry of the artefact has";
  }

  bool is_state(ValueId id) const { return kept_as_.contains(id) && !state_of_.contains(id); }

  Why why_left(const Graph& before, ValueId output) const {
    const auto state = state_of_.find(output);
    if (before.value(output).name == graph::kErrorOutput)
      return because("error", "the runtime reads it after a run: not 0 where an index was out of range");
    if (state == state_of_.end()) return because("caller", "the caller reads rows");
    return because("state", "the next value of {}, stored as that is", before.value(state->second).name);
  }

  Why why_stored(const graph::Value& value, ValueId id, const Node* producer) const {
    if (producer == nullptr && !is_state(id)) return because("caller", "the caller gives rows");
    if (!has_order(value)) return because("one-order", "rows and channels last are the same order of its bytes");
    if (assigned_.values[id] != (choice_.channels_last[id] ? last_of(value) : Layout()))
      return because("plan", "{}", by_plan());
    if (!choice_.other_ns[id]) return because("producer", "{} ({}) writes rows only", producer->name, producer->op);
    const std::string_view mine = choice_.channels_last[id] ? "channels last" : "row-major";
    const std::string_view other = choice_.channels_last[id] ? "row-major" : "channels last";
    const double more = *choice_.other_ns[id];
    const std::string_view rule = is_state(id) ? "state" : "least-time";
    Why why = more > 0 ? because(rule, "{}: the whole graph takes longer with {} here", mine, other)
                       : because(rule, "{}: {} here would take as long", mine, other);
    why.numbers = {{kOther, more}};
    return why;
  }

  Why why_copied(const graph::Value& value, ValueId id) const {
    double min = std::numeric_limits<double>::infinity();
    std::string readers;
    for (const OrderedRead& r : choice_.reads) {
      if (before_[r.node].inputs[r.input] != id || !assigned_.reads.contains({r.node, r.input})) continue;
      if (r.channels_last == choice_.channels_last[id]) return because("plan", "{}", by_plan());
      readers += (readers.empty() ? "" : ", ") + before_[r.node].name;
      min = std::min(min, r.other_ns);
    }
    if (readers.empty()) return because("plan", "{}", by_plan());
    Why why = because("copy", "a copy of {} for {}: reading it as it is stored takes {}", value.name, readers,
                      min > 0 ? "longer" : "as long");
    why.numbers = {{kOther, min}};
    return why;
  }

  // The value that input `i` of node `n` reads instead of `id`.
  ValueId input(int n, size_t i, ValueId id) {
    const auto own = assigned_.reads.find({n, i});
    if (own == assigned_.reads.end()) return stored(id);
    const Layout& wanted = own->second;
    if (graph_.is_output(id) && wanted == left_as(id)) return id;
    const auto [copy, fresh] = copies_.try_emplace({id, to_string(wanted)}, graph::kAbsent);
    if (fresh) {
      copy->second = in_layout(id, wanted);
      add_copy(stored(id), copy->second);
    }
    return copy->second;
  }

  Layout left_as(ValueId output) const { return value_or(kept_as_, output, Layout()); }

  // Whether `id` leaves the graph in another layout than its producer writes.
  bool is_copied_out(ValueId id) const { return graph_.is_output(id) && assigned_.values[id] != left_as(id); }

  // `id` as its producer writes it.
  ValueId stored(ValueId id) {
    const Layout& layout = assigned_.values[id];
    if (!is_copied_out(id)) {
      if (!layout.is_identity()) graph_.values[id].layout = layout;
      return id;
    }
    const auto [stored, fresh] = stored_.try_emplace(id, graph::kAbsent);
    if (fresh) stored->second = in_layout(id, layout);
    return stored->second;
  }

  ValueId in_layout(ValueId id, const Layout& layout) {
    const graph::Value source = graph_.value(id);
    const char* suffix = layout.is_identity() ? "_rows" : layout == last_of(source) ? "_channels_last" : "_stored";
    const ValueId made = graph_.add_value(source.name + suffix, source.type);
    graph_.values[made].layout = layout;
    return made;
  }

  void add_copy(ValueId from, ValueId to) {
    graph_.nodes.push_back({.op = "transpose",
                            .name = graph_.value(to).name + "_layout",
                            .attrs = {{"perm", sequence(graph_.value(from).type.shape.size())}},
                            .inputs = {from},
                            .outputs = {to}});
  }

  Graph graph_;
  const LayoutChoice& choice_;  // without a plan
  const Assigned& assigned_;
  const TargetInfo& target_;
  std::vector<Node> before_;                                   // nodes as they were
  std::map<ValueId, Layout> kept_as_;                          // both ends of states
  std::map<ValueId, ValueId> state_of_;                        // next value: the state
  std::map<ValueId, ValueId> stored_;                          // of outputs: the value that their producers write
  std::map<std::pair<ValueId, std::string>, ValueId> copies_;  // by layout
};

}  // namespace

graph::Graph assign_layouts(const graph::Graph& graph, const TransformContext& context) {
  const Graph compacted = graph::compact(graph);
  const std::vector<StateEnds> states = ends_of(compacted, context.states);
  const Known known(compacted, states, context.layouts);
  const KnownOrders orders = known.orders();
  const bool is_own = orders.values.empty() && orders.reads.empty(), is_asked = context.log != nullptr;
  const auto choose = [&](const KnownOrders& given, Prices prices) {
    return choose_layouts(compacted, context.ops, context.target, states, given, prices);
  };
  const LayoutChoice choice = choose(orders, is_own && is_asked ? Prices::kOfBoth : Prices::kOfBest);
  // Against what a plan says no other order has a price: reasons are those of a choice without it.
  const LayoutChoice own = is_own || !is_asked ? choice : choose({}, Prices::kOfBoth);
  Assigned assigned = assigned_by(compacted, choice);
  known.apply(assigned);
  if (context.chosen != nullptr) note(compacted, states, assigned, *context.chosen);
  LayoutAssigner assigner(compacted, states, own, assigned, context.target);
  Graph stored = assigner.run();
  if (context.log != nullptr) assigner.say_why(*context.log, compacted);
  return stored;
}

}  // namespace tw::transform
