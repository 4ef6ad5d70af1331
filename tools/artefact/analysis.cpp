#include "artefact/analysis.h"

#include <algorithm>
#include <optional>

#include "artefact/artefact_graph.h"
#include "graph/repeat.h"
#include "ops/list.h"
#include "transform/passes.h"

namespace tw::artefact {
namespace {

Bound bound_of(const AnalyzedGroup& group) {
  if (group.us <= 0 || group.mue <= 0) return Bound::kUnknown;
  return group.mue > group.peak_share ? Bound::kMemory : Bound::kCompute;
}

TimeOrigin origin_of(const GroupReport& report) {
  if (report.run_us > 0) return TimeOrigin::kRun;
  if (report.plan.microseconds > 0) return TimeOrigin::kCompilation;
  return report.plan.predicted_us > 0 ? TimeOrigin::kPrediction : TimeOrigin::kNone;
}

// What a group does, and which operators of the artefact it is.
struct GroupWork {
  dataflow::Operator work;
  int64_t first_operator = 0, operators = 0;
};

// Of `graph`, which runs so often, then of the bodies of its loops: in the order of EntryReport::groups. `loop`: the
// operator that a body belongs to.
void add_work(const graph::Graph& graph, int64_t turns, std::optional<int64_t> loop, std::vector<GroupWork>& all) {
  const size_t first = all.size();
  int64_t behind = 0;  // operators of groups up to this one
  for (dataflow::Operator& group : analyze_operators(graph).operators) {
    group.flop *= static_cast<double>(turns);
    group.words_read *= turns;
    group.words_written *= turns;
    const int64_t operators = std::ssize(graph.nodes[all.size() - first].body->nodes);
    all.push_back({std::move(group), loop.value_or(behind), loop ? 1 : operators});
    behind += operators;
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const graph::Node* inner = graph::loop_of(graph.nodes[n]);
    if (inner != nullptr)
      add_work(*inner->body, turns * graph::repeat_of(*inner).turns, all[first + n].first_operator, all);
  }
}

AnalyzedGroup analyzed(const GroupReport& report, const GroupWork& work) {
  AnalyzedGroup group{report.plan.name, work.work.operator_class, work.operators,     work.first_operator,
                      work.work.flop,   best_known_us(report),    report.bound_bytes, report.dram_mue};
  const double peak = group.us * 1000 * report.peak_per_ns;
  if (peak > 0) group.peak_share = 100 * group.flop / peak;
  group.bound = bound_of(group);
  group.steps = report.steps;
  group.moved_bytes = report.moved_bytes;
  return group;
}

}  // namespace

double AnalyzedGroups::us(dataflow::OperatorClass operator_class) const {
  double sum = 0;
  for (const AnalyzedGroup& g : groups) sum += g.operator_class == operator_class ? g.us : 0;
  return sum;
}

double AnalyzedGroups::us() const {
  double sum = 0;
  for (const AnalyzedGroup& g : groups) sum += g.us;
  return sum;
}

graph::Graph model_operators(const graph::Graph& imported) {
  const graph::OpTable ops = ops::all_ops();
  const transform::TransformContext context{ops, {}};
  return graph::compact(transform::fold_constants(transform::canonicalize(imported, context), context));
}

graph::Graph artefact_operators(const std::vector<uint8_t>& artefact, const Explained& run) {
  return without_groups(read_graph(artefact, run.level, run.entry).graph);
}

dataflow::Dataflow analyze_operators(const graph::Graph& graph) { return dataflow::analyze(graph, ops::all_ops()); }

AnalyzedGroups analyze_groups(const std::vector<uint8_t>& artefact, const Explained& run,
                              const targets::Target& target) {
  const EntryReport report = explain_entry(artefact, run, target);
  std::vector<GroupWork> work;
  add_work(read_graph(artefact, run.level, run.entry).graph, 1, std::nullopt, work);
  AnalyzedGroups out;
  out.dram_per_ns = dram_bandwidth(target.info, run.threads);
  for (size_t g = 0; g < report.groups.size(); ++g) {
    const GroupReport& group = report.groups[g];
    if (!plan::has_code(group.plan)) continue;
    out.groups.push_back(analyzed(group, work.at(g)));
    const TimeOrigin origin = origin_of(group);
    if (out.origin == TimeOrigin::kNone || (origin != TimeOrigin::kNone && origin < out.origin)) out.origin = origin;
  }
  return out;
}

}  // namespace tw::artefact
