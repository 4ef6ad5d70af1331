#include "artefact/explain.h"

#include <algorithm>
#include <set>

#include "artefact/artefact_graph.h"
#include "driver/code/group_code.h"
#include "ops/list.h"

namespace tw::artefact {
namespace {

int64_t bytes_of(const graph::Graph& graph, const std::vector<graph::ValueId>& values) {
  const std::set<graph::ValueId> distinct(values.begin(), values.end());
  int64_t bytes = 0;
  for (const graph::ValueId id : distinct) bytes += id == graph::kAbsent ? 0 : graph.value(id).type.bytes();
  return bytes;
}

// Steps of a group are named after it, with the kernel's name behind when there are several.
double time_of(const std::string& group, const std::vector<StepTime>& steps) {
  double microseconds = 0;
  for (const StepTime& step : steps) {
    if (step.name == group || step.name.starts_with(group + " (")) microseconds += step.microseconds;
  }
  return microseconds;
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

// Bytes a nanosecond of the nearest level that holds `bytes`, by all threads together.
double bandwidth_for(int64_t bytes, const TargetInfo& info, int threads) {
  if (!info.device.levels.empty()) return device_bandwidth(bytes, info);
  for (const MemoryLevel& level : info.levels) {
    if (level.capacity_bytes * (level.shared ? 1 : threads) < bytes && &level != &info.levels.back()) continue;
    const double all = level.read_per_ns * threads;
    return level.shared && level.all_per_ns > 0 ? std::min(all, level.all_per_ns) : all;
  }
  return 0;
}

// Operations a nanosecond of the fastest instructions on factors of the type of the group's first input.
double peak_for(const graph::Graph& graph, const graph::Node& node, const TargetInfo& info, int threads) {
  if (info.device.peaks.empty()) return info.flop_per_ns * threads;
  const std::string type = node.inputs.empty() ? "" : to_string(graph.value(node.inputs[0]).type.type);
  double peak = 0;
  for (const TypePeak& row : info.device.peaks) peak = row.type == type ? std::max(peak, row.op_per_ns) : peak;
  return peak;
}

}  // namespace

double best_known_us(const GroupReport& report) {
  if (report.run_us > 0) return report.run_us;
  return report.plan.microseconds > 0 ? report.plan.microseconds : report.plan.predicted_us;
}

std::vector<GroupReport> explain_entry(const std::vector<uint8_t>& artefact, const std::string& level, int entry,
                                       const std::vector<StepTime>& steps, const targets::Target& target, int threads) {
  const ArtefactGraph read = read_graph(artefact, level, entry);
  const graph::OpTable all_operators = ops::all_ops();
  std::vector<GroupReport> reports;
  for (size_t g = 0; g < read.graph.nodes.size(); ++g) {
    const graph::Node& node = read.graph.nodes[g];
    GroupReport report;
    report.plan = read.plan.groups.at(g);
    report.run_us = time_of(report.plan.name, steps);
    report.bound_bytes = bytes_of(read.graph, node.inputs) + bytes_of(read.graph, node.outputs);
    if (report.plan.family != plan::kViewFamily)
      report.flop = driver::contraction_flop(driver::build_te({read.graph, node, all_operators, target}).program);
    const double ns = best_known_us(report) * 1000;
    const double bandwidth = bandwidth_for(report.bound_bytes, target.info, threads);
    if (ns > 0 && bandwidth > 0) report.mue = 100 * static_cast<double>(report.bound_bytes) / (ns * bandwidth);
    const double peak = peak_for(read.graph, node, target.info, threads);
    if (ns > 0 && peak > 0) report.peak_share = 100 * report.flop / (ns * peak);
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace tw::artefact
