#include "artefact/analysis.h"

#include <algorithm>

#include "artefact/artefact_graph.h"
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

AnalyzedGroup analyzed(const GroupReport& report, const dataflow::Operator& work, int64_t first_operator) {
  AnalyzedGroup group{report.plan.name, work.operator_class,   std::ssize(report.operators), first_operator,
                      work.flop,        best_known_us(report), report.bound_bytes,           report.dram_mue};
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
  const graph::Graph graph = read_graph(artefact, run.level, run.entry).graph;
  const dataflow::Dataflow groups = analyze_operators(graph);
  AnalyzedGroups out;
  out.dram_per_ns = dram_bandwidth(target.info, run.threads);
  int64_t behind = 0;  // operators of groups up to this one
  for (size_t g = 0; g < report.groups.size(); ++g) {
    const GroupReport& group = report.groups[g];
    const int64_t first = behind;
    behind += std::ssize(graph.nodes.at(g).body->nodes);
    if (group.plan.family == plan::kViewFamily) continue;
    out.groups.push_back(analyzed(group, groups.operators.at(g), first));
    const TimeOrigin origin = origin_of(group);
    if (out.origin == TimeOrigin::kNone || (origin != TimeOrigin::kNone && origin < out.origin)) out.origin = origin;
  }
  return out;
}

}  // namespace tw::artefact
