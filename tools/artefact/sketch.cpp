#include "artefact/sketch.h"

#include <fmt/format.h>

#include <set>

#include "artefact/artefact_graph.h"
#include "frontend/onnx/edit/sketch.h"
#include "runtime/format/container.h"

namespace tw::artefact {
namespace {

frontend::SketchNode node_of(const graph::Graph& graph, const graph::Node& group, const plan::GroupPlan& plan) {
  frontend::SketchNode node{group.name, plan.family, {}, {}};
  for (const graph::ValueId in : group.inputs) node.inputs.push_back(in == graph::kAbsent ? "" : graph.value(in).name);
  for (const graph::ValueId out : group.outputs) node.outputs.push_back(graph.value(out).name);
  if (plan.microseconds > 0) node.facts.emplace_back("time", fmt::format("{:.6g} us", plan.microseconds));
  if (plan.predicted_us > 0) node.facts.emplace_back("predicted", fmt::format("{:.6g} us", plan.predicted_us));
  std::string operators;
  for (const graph::Node& inner : group.body->nodes)
    operators += fmt::format("{}{} ({})", operators.empty() ? "" : ", ", inner.name, inner.op);
  node.facts.emplace_back("operators", operators);
  for (const graph::ValueId out : group.outputs) {
    const graph::Value& value = graph.value(out);
    node.facts.emplace_back("layout " + value.name, value.layout.is_identity() ? "rows" : tw::to_string(value.layout));
  }
  return node;
}

}  // namespace

std::string groups_as_onnx(const std::vector<uint8_t>& bytes) {
  const format::Manifest manifest = format::Artefact::parse(bytes).manifest();
  const ArtefactGraph read = read_graph(bytes, manifest.targets.front().arch, 0);
  frontend::Sketch sketch{read.plan.name, {}, {}, {}, {}};
  std::set<graph::ValueId> ends;
  const auto add = [&](const std::vector<graph::ValueId>& ids, std::vector<frontend::SketchValue>& to) {
    for (const graph::ValueId id : ids) {
      to.push_back({read.graph.value(id).name, read.graph.value(id).type});
      ends.insert(id);
    }
  };
  add(read.graph.inputs, sketch.inputs);
  add(read.graph.outputs, sketch.outputs);
  for (size_t g = 0; g < read.graph.nodes.size(); ++g)
    sketch.nodes.push_back(node_of(read.graph, read.graph.nodes[g], read.plan.groups.at(g)));
  for (size_t v = 0; v < read.graph.values.size(); ++v) {
    const graph::Value& value = read.graph.values[v];
    if (!ends.contains(static_cast<graph::ValueId>(v))) sketch.inner.push_back({value.name, value.type});
  }
  return frontend::onnx_bytes(sketch);
}

}  // namespace tw::artefact
