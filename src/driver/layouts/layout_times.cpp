#include "driver/layouts/layout_times.h"

#include "support/join.h"
#include "support/random.h"
#include "transform/layout/reorder_values.h"
#include "transform/storage_order.h"

namespace tw::driver {
namespace {

// Configurations of a group that are measured: all, where there are not more. Each takes about a second.
constexpr size_t kMostConfigurations = 64;

// Next number of `counts`, the last digit fastest; whether there is one.
bool advance(std::vector<int>& digits, const std::vector<int>& counts) {
  for (size_t i = digits.size(); i-- > 0;) {
    if (++digits[i] < counts[i]) return true;
    digits[i] = 0;
  }
  return false;
}

}  // namespace

LayoutBench::LayoutBench(const LayoutTask& task, const std::map<graph::ValueId, std::vector<Layout>>& labels,
                         Planner& planner)
    : task_(task), labels_(labels), planner_(planner), graph_(task.groups.graph) {
  for (size_t n = 0; n < graph_.nodes.size(); ++n) {
    GroupLayouts group{.group = n};
    const auto add_ports = [&](const std::vector<graph::ValueId>& ids) {
      for (const graph::ValueId id : ids) {
        if (labels_.contains(id) && std::ranges::count(group.ports, id) == 0) group.ports.push_back(id);
      }
    };
    add_ports(graph_.nodes[n].inputs);
    group.read = group.ports.size();
    add_ports(graph_.nodes[n].outputs);
    for (const std::vector<int>& choice : choices_of(group)) add(group, choice);
    for (const graph::ValueId id : group.ports) graph_.values[id].layout = labels_.at(id).front();
    groups_.push_back(std::move(group));
  }
}

// Values of one shape that a group writes leave one tile, in one order.
bool LayoutBench::is_feasible(const GroupLayouts& group, const std::vector<int>& labels) const {
  const auto layout = [&](size_t p) { return labels_.at(group.ports[p])[static_cast<size_t>(labels[p])]; };
  for (size_t p = group.read; p < labels.size(); ++p) {
    for (size_t q = group.read; q < p; ++q) {
      const bool is_alike = graph_.value(group.ports[p]).type.shape == graph_.value(group.ports[q]).type.shape;
      const bool was_alike = labels_.at(group.ports[p]).front() == labels_.at(group.ports[q]).front();
      if (is_alike && was_alike && layout(p) != layout(q)) return false;
    }
  }
  return true;
}

// All combinations of labels, or where these are too many: every label of each value alone, and of all values of its
// shape together, then some that are drawn.
std::vector<std::vector<int>> LayoutBench::choices_of(const GroupLayouts& group) const {
  std::vector<int> counts;
  double all = 1;
  for (const graph::ValueId id : group.ports) {
    counts.push_back(static_cast<int>(count(id)));
    all *= counts.back();
  }
  std::vector<int> labels(counts.size());
  std::vector<std::vector<int>> choices;
  std::set<std::vector<int>> known;
  const auto take = [&](const std::vector<int>& choice) {
    if (is_feasible(group, choice) && known.insert(choice).second) choices.push_back(choice);
  };
  if (all <= kMostConfigurations) {
    do take(labels);
    while (advance(labels, counts));
    return choices;
  }
  take(labels);
  for (size_t p = 0; p < counts.size(); ++p) {
    for (int l = 0; l < counts[p]; ++l) {
      std::vector<int> alone = labels, together = labels;
      alone[p] = together[p] = l;
      const Layout& layout = labels_.at(group.ports[p])[static_cast<size_t>(l)];
      for (size_t q = 0; q < counts.size(); ++q) {
        const auto same = index_of(labels_.at(group.ports[q]), layout);
        const bool is_alike = graph_.value(group.ports[q]).type.shape == graph_.value(group.ports[p]).type.shape;
        if (is_alike && same >= 0) together[q] = static_cast<int>(same);
      }
      take(alone);
      take(together);
    }
  }
  uint64_t random = group.group;
  for (size_t draws = 0; draws < 4 * kMostConfigurations && choices.size() < kMostConfigurations; ++draws) {
    for (size_t p = 0; p < counts.size(); ++p)
      labels[p] = static_cast<int>(split_mix(random += kSplitMixStep) % static_cast<uint64_t>(counts[p]));
    take(labels);
  }
  return choices;
}

void LayoutBench::add(GroupLayouts& group, const std::vector<int>& labels) {
  for (size_t p = 0; p < labels.size(); ++p)
    graph_.values[group.ports[p]].layout = labels_.at(group.ports[p])[static_cast<size_t>(labels[p])];
  const graph::Node& node = graph_.nodes[group.group];
  const bool may_be_view = !graph_.is_output(node.outputs[0]) || task_.groups.is_view(group.group);
  Configuration made{.labels = labels};
  if (task_.groups.is_loop(group.group) || (may_be_view && transform::is_view(graph_, node))) {
    made.is_known = true;
  } else {
    const GroupTe te = build_te({graph_, node, task_.ops, task_.target, task_.states});
    made.text = text_of(te);
    planner_.add_timed(node.name, te);
  }
  group.configurations.push_back(std::move(made));
}

void LayoutBench::take() {
  for (GroupLayouts& group : groups_) {
    for (Configuration& c : group.configurations) {
      if (c.text.empty()) continue;
      c.us = planner_.microseconds_of(c.text);
      c.is_known = c.us > 0;
    }
  }
}

void LayoutBench::add_copy(graph::ValueId value, size_t from, size_t to) {
  std::string& text = copies_[{value, {from, to}}];
  if (!text.empty()) return;
  graph::Graph copy;
  copy.values = {graph_.value(value), graph_.value(value)};
  copy.values[0].layout = labels_.at(value)[from];
  copy.values[1].layout = labels_.at(value)[to];
  copy.values[1].name += "_stored";
  copy.inputs = {0};
  copy.outputs = {1};
  copy.nodes = {transform::copy_between(copy, 0, 1)};
  const GroupTe te = build_te({copy, copy.nodes[0], task_.ops, task_.target});
  text = text_of(te);
  planner_.add_timed(copy.nodes[0].name, te);
}

double LayoutBench::copy_us(graph::ValueId value, size_t from, size_t to) const {
  const auto found = copies_.find({value, {from, to}});
  return found == copies_.end() ? 0 : planner_.microseconds_of(found->second);
}

}  // namespace tw::driver
