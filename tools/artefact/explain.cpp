#include "artefact/explain.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "artefact/artefact_graph.h"
#include "dataflow/dataflow.h"
#include "driver/code/group_code.h"
#include "graph/repeat.h"
#include "ops/list.h"
#include "runtime/format/container.h"
#include "support/join.h"
#include "transform/in_place.h"
#include "transform/passes.h"
#include "transform/roles.h"

namespace tw::artefact {
namespace {

// What a group reads of one storage, which several values may be views of.
struct Reading {
  int64_t whole = 0;    // bytes of the storage
  int64_t touched = 0;  // that are read, at most
};

class Readings {
 public:
  Readings(const graph::Graph& graph, const plan::EntryPlan& plan) : graph_(graph), producers_(graph.producers()) {
    for (const plan::GroupPlan& group : plan.groups) is_view_.push_back(group.family == plan::kViewFamily);
  }

  // Of each storage that `group` reads. A constant of one element is part of the code.
  std::map<graph::ValueId, Reading> of(const graph::Node& group) const {
    std::map<graph::ValueId, Reading> all;
    const std::set<graph::ValueId> inputs(group.inputs.begin(), group.inputs.end());
    for (const graph::ValueId id : inputs) {
      if (id == graph::kAbsent || (graph_.value(id).is_constant() && graph_.value(id).type.elements() == 1)) continue;
      Reading& reading = all[storage(id)];
      reading.whole = graph_.value(id).type.bytes();
      reading.touched = std::min(reading.whole, reading.touched + touched(group, id));
    }
    return all;
  }

 private:
  // The value that `id` is a view of.
  graph::ValueId storage(graph::ValueId id) const {
    for (int p = producers_[id]; p >= 0 && is_view_[p]; p = producers_[id]) {
      const graph::ValueId in = graph_.nodes[p].inputs.at(0);
      if (in == graph::kAbsent || graph_.value(in).type.bytes() != graph_.value(id).type.bytes()) break;
      id = in;
    }
    return id;
  }

  // Slices and gathers read as much of their data as they make.
  int64_t touched(const graph::Node& group, graph::ValueId id) const {
    const graph::Graph& body = *group.body;
    int64_t bytes = 0;
    for (const graph::Node& node : body.nodes) {
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const int64_t position = index_of(body.inputs, node.inputs[i]);
        if (position < 0 || group.inputs[position] != id) continue;
        if (i > 0 || !transform::reads_a_part(node)) return graph_.value(id).type.bytes();
        const TensorType& made = body.value(node.outputs[0]).type;
        bytes += made.elements() * graph_.value(id).type.type.bytes();
      }
    }
    return bytes;
  }

  const graph::Graph& graph_;
  std::vector<int> producers_;
  std::vector<bool> is_view_;
};

int64_t bytes_of(const graph::Graph& graph, const std::vector<graph::ValueId>& values) {
  int64_t bytes = 0;
  for (const graph::ValueId id : values) bytes += graph.value(id).type.bytes();
  return bytes;
}

// Of states that a group changes in their place: what it does not touch, and what it both reads and writes.
struct InPlaceBytes {
  int64_t untouched = 0, read_and_written = 0;
};

InPlaceBytes in_place_bytes(const graph::Graph& graph, const std::vector<format::State>& states,
                            const graph::Node& node, const graph::OpTable& ops) {
  InPlaceBytes bytes;
  for (const format::State& state : states) {
    const graph::ValueId before = graph.find_value(state.tensor.name), after = graph.find_value(state.next);
    if (std::ranges::count(node.outputs, after) == 0) continue;
    const transform::InPlace way = transform::in_place(ops, graph, node, before, after);
    const int64_t whole = graph.value(after).type.bytes();
    if (way == transform::InPlace::kSlice) bytes.untouched += whole - graph.value(node.inputs[1]).type.bytes();
    if (way == transform::InPlace::kPoint) bytes.read_and_written += whole;
  }
  return bytes;
}

// Q of a group. What it changes of a state in its place is written, and nothing else of the state is read or written.
int64_t bound_bytes(const graph::Graph& graph, const std::map<graph::ValueId, Reading>& readings,
                    const graph::Node& node, int64_t untouched) {
  int64_t whole = bytes_of(graph, node.outputs);
  for (const auto& [id, reading] : readings) whole += reading.touched;
  return untouched == 0 ? whole : whole - untouched - graph.value(node.outputs[0]).type.bytes();
}

// Steps of a group are named after it, with the kernel's name behind when there are several.
bool is_step_of(const std::string& group, const std::string& step) {
  return step == group || step.starts_with(group + " (");
}

// Steps in the order of their groups. How many of them, from the first on, are the next group's: none where the first
// has the name of another. Neighbours may share a name: a kernel that is alone has that name as it is; of several the
// last one computes the group, so that a name that is there again ends the group before with it, or begins the next.
template <typename Step>
size_t count_steps(const std::string& group, std::span<const Step> steps) {
  const auto name = [](const Step& step) -> const std::string& { return step.name; };
  for (size_t k = 0; k < steps.size() && is_step_of(group, steps[k].name); ++k) {
    if (k > 0 && steps[k].name == group) return k;
    const auto before = static_cast<size_t>(std::ranges::find(steps.first(k), steps[k].name, name) - steps.begin());
    if (before < k) return before == 0 ? k : before + 1;
    if (steps[k].name == group) return 1;
    if (k + 1 == steps.size() || !is_step_of(group, steps[k + 1].name)) return k + 1;
  }
  return 0;
}

// Those steps, which are taken off `rest`.
template <typename Step>
std::span<const Step> take_steps(const std::string& group, std::span<const Step>& rest) {
  const std::span<const Step> taken = rest.first(count_steps(group, rest));
  rest = rest.subspan(taken.size());
  return taken;
}

// Bytes a nanosecond of a whole device: of the nearest level that holds `bytes` and whose rate is known.
double device_bandwidth(int64_t bytes, const TargetInfo& info) {
  double outermost = 0;
  for (const LevelRates& rates : info.device.levels) {
    const auto level = std::ranges::find(info.levels, rates.name, &MemoryLevel::name);
    outermost = rates.read_per_ns;
    if (level != info.levels.end() && level->capacity_bytes >= bytes && outermost > 0) return outermost;
  }
  return outermost;
}

int64_t bytes_of(const format::Entry& entry, const std::set<int64_t>& buffers) {
  int64_t bytes = 0;
  for (const int64_t b : buffers) bytes += entry.buffers.at(static_cast<size_t>(b)).bytes;
  return bytes;
}

// What each step reads and writes.
struct StepBytes {
  std::string name;
  int64_t bytes = 0;
};

std::vector<StepBytes> bytes_of_steps(const format::Entry& entry) {
  std::vector<StepBytes> steps;
  const auto add = [&](const std::string& name, const std::vector<int64_t>& buffers) {
    steps.push_back({name, bytes_of(entry, {buffers.begin(), buffers.end()})});
  };
  for (const format::CpuStep& s : entry.cpu_steps) add(s.name, format::buffers_of(s));
  for (const format::CudaStep& s : entry.cuda_steps) add(s.name, format::buffers_of(s));
  return steps;
}

// Bytes a nanosecond of all threads together.
double bandwidth_of(const MemoryLevel& level, int threads) {
  const double all = level.read_per_ns * threads;
  return level.shared && level.all_per_ns > 0 ? std::min(all, level.all_per_ns) : all;
}

// Bytes a nanosecond of the nearest level that holds `bytes`, by all threads together.
double bandwidth_for(int64_t bytes, const TargetInfo& info, int threads) {
  if (!info.device.levels.empty()) return device_bandwidth(bytes, info);
  for (const MemoryLevel& level : info.levels) {
    if (level.capacity_bytes * (level.shared ? 1 : threads) < bytes && &level != &info.levels.back()) continue;
    return bandwidth_of(level, threads);
  }
  return 0;
}

// Q / (t * B_peak) in percent; 0 where the time or the bandwidth is not known.
double mue_of(int64_t bound_bytes, double ns, double bytes_per_ns) {
  return ns > 0 && bytes_per_ns > 0 ? 100 * static_cast<double>(bound_bytes) / (ns * bytes_per_ns) : 0;
}

// Operations a nanosecond of the fastest instructions on factors of the type of the group's first input.
double peak_for(const graph::Graph& graph, const graph::Node& node, const TargetInfo& info, int threads) {
  if (info.device.peaks.empty()) return info.flop_per_ns * threads;
  const std::string type = node.inputs.empty() ? "" : to_string(graph.value(node.inputs[0]).type.type);
  double peak = 0;
  for (const TypePeak& row : info.device.peaks) peak = row.type == type ? std::max(peak, row.op_per_ns) : peak;
  return peak;
}

// The group's inputs but for constants, and whatever is computed inside.
void name_values(const graph::Graph& graph, const graph::Node& node, const graph::OpTable& ops, GroupReport& report) {
  for (const graph::ValueId in : node.inputs) {
    if (in != graph::kAbsent && !graph.value(in).is_constant()) report.reads.push_back(graph.value(in).name);
  }
  for (const dataflow::Operator& o : dataflow::analyze(*node.body, ops).operators)
    report.operators.push_back({o.name, o.op, o.operator_class, o.flop_per_word()});
  for (const graph::Node& inner : node.body->nodes) {
    for (const graph::ValueId out : inner.outputs) report.computes.push_back(node.body->value(out).name);
  }
}

// Of `graph`, whose groups are those from `flows.groups` on; then of the bodies of its loops, in the order of
// EntryReport::groups. What a body is given comes from `loop`, its group; -1: from the caller.
struct Flows {
  std::vector<Flow> all;
  int groups = 0;
};

void add_flows(const graph::Graph& graph, int loop, Flows& flows) {
  const std::vector<int> producers = graph.producers();
  const int first = flows.groups;
  flows.groups += static_cast<int>(graph.nodes.size());
  const auto add = [&](graph::ValueId id, int to) {
    if (id == graph::kAbsent) return;
    const graph::Value& value = graph.value(id);
    if (value.is_constant() && value.type.elements() == 1) return;
    const int producer = producers[static_cast<size_t>(id)];
    const int from = producer >= 0 ? first + producer : value.is_constant() ? -1 : loop;
    flows.all.push_back({from, to, value.name, value.type, value.layout, value.is_constant()});
  };
  for (size_t g = 0; g < graph.nodes.size(); ++g) {
    const std::vector<graph::ValueId>& inputs = graph.nodes[g].inputs;
    const std::set<graph::ValueId> read(inputs.begin(), inputs.end());
    for (const graph::ValueId id : read) add(id, first + static_cast<int>(g));
  }
  if (loop < 0) {
    for (const graph::ValueId id : graph.outputs) add(id, -1);
  }
  for (size_t g = 0; g < graph.nodes.size(); ++g) {
    if (const graph::Node* inner = graph::loop_of(graph.nodes[g]))
      add_flows(*inner->body, first + static_cast<int>(g), flows);
  }
}

}  // namespace

double dram_bandwidth(const TargetInfo& info, int threads) {
  if (!info.device.levels.empty()) return info.device.levels.back().read_per_ns;
  return info.levels.empty() ? 0 : bandwidth_of(info.levels.back(), threads);
}

double best_known_us(const GroupReport& report) {
  if (report.run_us > 0) return report.run_us;
  const double once = report.plan.microseconds > 0 ? report.plan.microseconds : report.plan.predicted_us;
  return once * static_cast<double>(report.turns);
}

namespace {

// Groups of an entry, and of the bodies of its loops, in the order of their steps.
class Explainer {
 public:
  Explainer(const ArtefactGraph& read, const Explained& run, const targets::Target& target,
            std::span<const StepBytes> moved)
      : read_(read), run_(run), target_(target), moved_(moved), timed_(run.steps), ops_(ops::all_ops()) {}

  std::vector<GroupReport> run() {
    explain(read_.graph, read_.plan, 1);
    std::vector<GroupReport> all;
    for (std::vector<GroupReport>& groups : graphs_) append(all, std::move(groups));
    return all;
  }

 private:
  void explain(const graph::Graph& graph, const plan::EntryPlan& plan, int64_t turns) {
    const size_t place = graphs_.size();
    graphs_.emplace_back();
    const Readings readings(graph, plan);
    size_t loops = 0;
    for (size_t g = 0; g < graph.nodes.size(); ++g) {
      graphs_[place].push_back(report_of(graph, readings, g, plan.groups.at(g), turns));
      if (const graph::Node* loop = graph::loop_of(graph.nodes[g]))
        explain(*loop->body, plan.bodies.at(loops++), turns * graph::repeat_of(*loop).turns);
    }
  }

  GroupReport report_of(const graph::Graph& graph, const Readings& readings, size_t g, const plan::GroupPlan& plan,
                        int64_t turns) {
    const graph::Node& node = graph.nodes[g];
    GroupReport report;
    report.plan = plan;
    report.turns = turns;
    name_values(graph, node, ops_, report);
    report.makes_room = transform::makes_room(node);
    const std::map<std::string, std::string> nodes = report.plan.other_candidates.empty()
                                                         ? std::map<std::string, std::string>()
                                                         : graph::to_te(*node.body, ops_).nodes;
    for (plan::OtherCandidate& candidate : report.plan.other_candidates) {
      candidate.reason = graph::in_words_of_graph(candidate.reason, nodes);
      candidate.differs = graph::in_words_of_graph(candidate.differs, nodes);
    }
    if (plan::has_code(plan)) add_costs(graph, node, readings, report);
    const double ns = best_known_us(report) * 1000;
    report.mue = mue_of(report.bound_bytes, ns, bandwidth_for(report.bound_bytes / turns, target_.info, run_.threads));
    report.dram_mue = mue_of(report.bound_bytes, ns, dram_bandwidth(target_.info, run_.threads));
    report.peak_per_ns = peak_for(graph, node, target_.info, run_.threads);
    if (ns > 0 && report.peak_per_ns > 0) report.peak_share = 100 * report.flop / (ns * report.peak_per_ns);
    return report;
  }

  void add_costs(const graph::Graph& graph, const graph::Node& node, const Readings& readings, GroupReport& report) {
    const auto [untouched, read_and_written] = in_place_bytes(graph, read_.states, node, ops_);
    const std::map<graph::ValueId, Reading> read_by_it = readings.of(node);
    report.bound_bytes = bound_bytes(graph, read_by_it, node, untouched) * report.turns;
    report.flop = driver::contraction_flop(driver::build_te({graph, node, ops_, target_}).program) *
                  static_cast<double>(report.turns);
    for (const StepTime& step : take_steps(report.plan.name, timed_)) report.run_us += step.microseconds;
    const std::span<const StepBytes> own = take_steps(report.plan.name, moved_);
    report.steps = std::ssize(own);
    for (const StepBytes& step : own) report.moved_bytes += step.bytes;
    report.moved_bytes += read_and_written - untouched;  // its step names the whole state, once
    for (const auto& [id, reading] : read_by_it) report.moved_bytes -= reading.whole - reading.touched;
    report.moved_bytes *= report.turns;
  }

  const ArtefactGraph& read_;
  const Explained& run_;
  const targets::Target& target_;
  std::span<const StepBytes> moved_;  // that no group has taken yet
  std::span<const StepTime> timed_;
  const graph::OpTable ops_;
  std::vector<std::vector<GroupReport>> graphs_;  // of the entry, then of each body
};

}  // namespace

EntryReport explain_entry(const std::vector<uint8_t>& artefact, const Explained& run, const targets::Target& target) {
  const ArtefactGraph read = read_graph(artefact, run.level, run.entry);
  const format::Manifest manifest = format::Artefact::parse(artefact).manifest();
  const std::vector<StepBytes> moved =
      bytes_of_steps(manifest.entries.at(manifest_entry(manifest, run.level, run.entry)));
  EntryReport out;
  out.groups = Explainer(read, run, target, moved).run();
  out.layout_times = read.plan.layout_times;
  Flows flows;
  add_flows(read.graph, -1, flows);
  out.flows = std::move(flows.all);
  out.edges = read.plan.reasons.edges;
  out.products = read.plan.reasons.products;
  for (const plan::ValueReason& reason : read.plan.reasons.values) {
    const graph::ValueId id = read.graph.find_value(reason.value);
    const bool rows = id == graph::kAbsent || read.graph.value(id).layout.is_identity();
    out.values.push_back({reason, rows ? "rows" : tw::to_string(read.graph.value(id).layout)});
  }
  return out;
}

}  // namespace tw::artefact
