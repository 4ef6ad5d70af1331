#include "driver/layouts/layout_choice.h"

#include "driver/layouts/layout_times.h"
#include "support/join.h"
#include "support/many_labels.h"

namespace tw::driver {
namespace {

using graph::ValueId;

constexpr double kNoise = 0.02;           // times of the same code differ by it
constexpr int kRounds = 16;               // of choices whose copies are measured then
constexpr double kMostTogether = 256;     // labels of a value and all of its reads: with more a copy is of one reader
constexpr double kMostOfGroup = 1 << 24;  // labels of the values of a group together

/// A value with its reads: each a variable of the problem.
struct ValueNodes {
  int value = -1;
  std::vector<std::pair<size_t, int>> reads;  // by the reading group
};

struct Copy {
  ValueId value;
  size_t from, to;
  auto operator<=>(const Copy&) const = default;
};

class LayoutChooser {
 public:
  LayoutChooser(const LayoutTask& task, Planner& planner, const std::function<void()>& decide)
      : task_(task), labels_(layout_labels(task)), bench_(task, labels_, planner), decide_(decide) {}

  LayoutChoice run() {
    for (const auto& [id, layouts] : labels_) {
      if (layouts.size() > 1) bench_.add_copy(id, 0, 0);
    }
    decide_();
    bench_.take();
    add_nodes();
    const Result<std::vector<int>> found = solve();
    LayoutChoice choice;
    if (!found) choice.declined = found.reason();
    const std::vector<int> usual(static_cast<size_t>(nodes_), 0);
    const bool is_better = found && cost_of(*found) < (1 - kNoise) * cost_of(usual);
    note(is_better ? *found : usual, choice);
    return choice;
  }

 private:
  const graph::Graph& graph() const { return task_.groups.graph; }
  size_t count(ValueId id) const { return labels_.at(id).size(); }

  void add_nodes() {
    for (const auto& [id, layouts] : labels_) values_[id].value = nodes_++;
    for (const GroupLayouts& group : bench_.groups()) {
      for (size_t p = 0; p < group.read; ++p) values_[group.ports[p]].reads.emplace_back(group.group, nodes_++);
    }
  }

  // The variable behind each port of a group.
  std::vector<int> nodes_of(const GroupLayouts& group) const {
    std::vector<int> nodes;
    for (size_t p = 0; p < group.ports.size(); ++p) {
      const ValueNodes& value = values_.at(group.ports[p]);
      const auto read = std::ranges::find(value.reads, group.group, &std::pair<size_t, int>::first);
      nodes.push_back(p < group.read ? read->second : value.value);
    }
    return nodes;
  }

  // With what a step of the runtime costs beside its kernel, on CPUs: a view that becomes a kernel is one more.
  double cost_of(const Configuration& c) const { return c.us + (c.text.empty() ? 0 : step_us()); }
  double step_us() const { return task_.target.info.barrier_ns * 1e-3; }

  // A group that was not measured as it is takes the same time always, and stays as it is.
  std::vector<double> costs_of(const GroupLayouts& group, int64_t entries, const auto& place_of) const {
    std::vector<double> costs(static_cast<size_t>(entries), ManyLabels::kNever);
    const bool is_known = group.configurations.front().is_known;
    if (!is_known) costs[0] = 0;
    for (const Configuration& c : group.configurations) {
      if (is_known && c.is_known) costs[place_of(c.labels)] = cost_of(c);
    }
    return costs;
  }

  double copy_cost(const Copy& copy) const {
    if (copy.from == copy.to) return 0;
    const double measured = bench_.copy_us(copy.value, copy.from, copy.to);
    if (measured > 0) return measured + step_us();
    const double least = bench_.copy_us(copy.value, 0, 0);
    return asked_.contains(copy) || is_last_ || least == 0 ? ManyLabels::kNever : least + step_us();
  }

  // The copies that readers with these labels need of a value.
  double copies_cost(ValueId id, size_t from, std::vector<size_t> reads) const {
    std::ranges::sort(reads);
    const auto repeated = std::ranges::unique(reads);
    reads.erase(repeated.begin(), repeated.end());
    double sum = 0;
    for (const size_t to : reads) sum += copy_cost({id, from, to});
    return sum;
  }

  void add_value(ManyLabels& problem, ValueId id) const {
    const ValueNodes& nodes = values_.at(id);
    double together = static_cast<double>(count(id));
    for (size_t r = 0; r < nodes.reads.size(); ++r) together *= static_cast<double>(count(id));
    if (together <= kMostTogether) return add_reads(problem, id, nodes.reads);
    for (const auto& read : nodes.reads) add_reads(problem, id, {read});  // a copy for each of them
  }

  void add_reads(ManyLabels& problem, ValueId id, const std::vector<std::pair<size_t, int>>& reads) const {
    std::vector<int> variables = {values_.at(id).value};
    for (const auto& [group, node] : reads) variables.push_back(node);
    std::vector<double> costs;
    std::vector<size_t> labels(variables.size());
    for (bool more = true; more;) {
      costs.push_back(copies_cost(id, labels.front(), {labels.begin() + 1, labels.end()}));
      more = false;
      for (size_t i = labels.size(); i-- > 0 && !more; labels[i] = more ? labels[i] : 0) more = ++labels[i] < count(id);
    }
    problem.add_cost(std::move(variables), std::move(costs));
  }

  Result<ManyLabels> problem() const {
    ManyLabels problem;
    std::vector<int> labels(static_cast<size_t>(nodes_));
    for (const auto& [id, nodes] : values_) {
      labels[static_cast<size_t>(nodes.value)] = static_cast<int>(count(id));
      for (const auto& [group, node] : nodes.reads) labels[static_cast<size_t>(node)] = static_cast<int>(count(id));
    }
    for (const int l : labels) problem.add(l);
    for (const auto& [id, nodes] : values_) add_value(problem, id);
    for (const GroupLayouts& group : bench_.groups()) {
      double entries = 1;
      for (const ValueId id : group.ports) entries *= static_cast<double>(count(id));
      if (entries > kMostOfGroup)
        return declined("{} has {:.3g} layouts of its values together", graph().nodes[group.group].name, entries);
      const auto place_of = [&](const std::vector<int>& of) {
        size_t place = 0;
        for (size_t p = 0; p < of.size(); ++p) place = place * count(group.ports[p]) + static_cast<size_t>(of[p]);
        return place;
      };
      problem.add_cost(nodes_of(group), costs_of(group, static_cast<int64_t>(entries), place_of));
    }
    return problem;
  }

  // Until all copies that the best labels take were measured.
  Result<std::vector<int>> solve() {
    for (int round = 0;; ++round) {
      is_last_ = round == kRounds;
      const Result<ManyLabels> costs = problem();
      if (!costs) return Reason{costs.reason()};
      const Result<ManyLabels::Solution> best = costs->solve();
      if (!best) return Reason{best.reason()};
      bool is_open = false;
      for (const Copy& copy : copies_in(best->labels)) {
        if (bench_.copy_us(copy.value, copy.from, copy.to) > 0) continue;
        asked_.insert(copy);
        bench_.add_copy(copy.value, copy.from, copy.to);
        is_open = true;
      }
      if (!is_open) return best->labels;
      decide_();
    }
  }

  std::set<Copy> copies_in(const std::vector<int>& labels) const {
    std::set<Copy> copies;
    for (const auto& [id, nodes] : values_) {
      const int own = labels[static_cast<size_t>(nodes.value)];
      for (const auto& [group, node] : nodes.reads) {
        const int read = labels[static_cast<size_t>(node)];
        if (read != own) copies.insert({id, static_cast<size_t>(own), static_cast<size_t>(read)});
      }
    }
    return copies;
  }

  const Configuration* find(const GroupLayouts& group, const std::vector<int>& labels) const {
    const std::vector<int> own = mapped(nodes_of(group), [&](int node) { return labels[static_cast<size_t>(node)]; });
    const auto found = std::ranges::find(group.configurations, own, &Configuration::labels);
    return found == group.configurations.end() ? nullptr : &*found;
  }

  double cost_of(const std::vector<int>& labels) const {
    double sum = 0;
    for (const GroupLayouts& group : bench_.groups()) {
      if (const Configuration* c = find(group, labels)) sum += cost_of(*c);
    }
    for (const Copy& copy : copies_in(labels)) sum += copy_cost(copy);
    return sum;
  }

  void note(const std::vector<int>& labels, LayoutChoice& choice) const {
    const auto layout = [&](ValueId id, int node) {
      return labels_.at(id)[static_cast<size_t>(labels[static_cast<size_t>(node)])];
    };
    for (const auto& [id, nodes] : values_) {
      const Layout stored = layout(id, nodes.value);
      if (stored != labels_.at(id).front()) choice.between.values[graph().value(id).name] = stored;
      for (const auto& [group, node] : nodes.reads) {
        if (layout(id, node) != stored) note_read(id, graph().nodes[group], layout(id, node), choice);
      }
    }
    for (const GroupLayouts& group : bench_.groups()) note_times(group, labels, choice);
    for (const Copy& copy : copies_in(labels))
      choice.times.push_back(
          {graph().value(copy.value).name + "_stored", 0, bench_.copy_us(copy.value, copy.from, copy.to), {}});
  }

  void note_read(ValueId id, const graph::Node& reader, const Layout& layout, LayoutChoice& choice) const {
    for (size_t i = 0; i < reader.inputs.size(); ++i) {
      if (reader.inputs[i] == id)
        choice.between.reads[{graph().value(reader.outputs.front()).name, static_cast<int64_t>(i)}] = layout;
    }
  }

  // Layouts that are one program to a group are one.
  void note_times(const GroupLayouts& group, const std::vector<int>& labels, LayoutChoice& choice) const {
    plan::LayoutTimes times{graph().nodes[group.group].name, group.configurations.front().us};
    if (const Configuration* chosen = find(group, labels)) times.chosen_us = chosen->us;
    std::set<std::string> known;
    for (const Configuration& c : group.configurations) {
      if (c.is_known && known.insert(c.text).second) times.us.push_back(c.us);
    }
    if (std::ranges::any_of(times.us, [](double us) { return us > 0; })) choice.times.push_back(std::move(times));
  }

  const LayoutTask& task_;
  std::map<ValueId, std::vector<Layout>> labels_;
  LayoutBench bench_;
  const std::function<void()>& decide_;
  std::map<ValueId, ValueNodes> values_;
  int nodes_ = 0;
  std::set<Copy> asked_;  // copies that were to be measured
  bool is_last_ = false;  // no other copies are measured
};

}  // namespace

LayoutChoice choose_layouts(const LayoutTask& task, Planner& planner, const std::function<void()>& decide) {
  return LayoutChooser(task, planner, decide).run();
}

}  // namespace tw::driver
