#include "artefact/check.h"

#include <algorithm>
#include <span>

#include "artefact/artefact_graph.h"
#include "driver/artefact/extent_input.h"
#include "driver/code/format_type.h"
#include "graph/error_output.h"
#include "graph/repeat.h"
#include "runtime/format/container.h"
#include "runtime/format/error.h"

namespace tw::artefact {
namespace {

using format::ErrorCode;

[[noreturn]] void refuse(const format::Entry& entry, std::string_view what) {
  throw format::Error(ErrorCode::kDamaged, fmt::format("entry '{}': {}", entry.name, what));
}

// The values that are the caller's: the first ones, behind which come states and the error word.
void check_tensors(const format::Entry& entry, const graph::Graph& graph, const std::vector<graph::ValueId>& values,
                   const std::vector<format::TensorSpec>& specs) {
  if (values.size() < specs.size()) refuse(entry, "its graph has fewer inputs or outputs than its manifest");
  for (size_t i = 0; i < specs.size(); ++i) {
    const graph::Value& value = graph.value(values[i]);
    const bool same = value.name == specs[i].name && value.type.shape == specs[i].shape &&
                      driver::format_type(value.type.type) == specs[i].dtype;
    if (!same) refuse(entry, fmt::format("tensor '{}' is another one in its graph", specs[i].name));
  }
}

// Behind the caller's inputs.
void check_extents(const format::Entry& entry, const graph::Graph& graph) {
  for (size_t e = 0; e < entry.extents.size(); ++e) {
    const size_t at = entry.inputs.size() + e;
    const bool is_there =
        at < graph.inputs.size() && graph.value(graph.inputs[at]).name == driver::input_of(entry.extents[e]);
    if (!is_there) refuse(entry, fmt::format("extent '{}' is none of its graph", entry.extents[e].name));
  }
}

// Steps come in the order of groups: each has at least one, which has its name.
template <typename Step>
void take_steps(const format::Entry& entry, const graph::Graph& graph, const plan::EntryPlan& plan,
                std::span<const Step>& rest) {
  size_t loops = 0;
  for (size_t g = 0; g < graph.nodes.size(); ++g) {
    if (const graph::Node* loop = graph::loop_of(graph.nodes[g])) {
      take_steps(entry, *loop->body, plan.bodies.at(loops++), rest);
      continue;
    }
    if (!plan::has_code(plan.groups.at(g))) continue;
    const std::string& name = plan.groups[g].name;
    const auto is_own = [&](const Step& step) { return step.name == name || step.name.starts_with(name + " ("); };
    if (rest.empty() || !is_own(rest.front())) refuse(entry, fmt::format("no step computes group '{}'", name));
    const bool is_alone = rest.front().name == name;
    rest = rest.subspan(1);
    while (!is_alone && !rest.empty() && is_own(rest.front()) && rest.front().name != name) rest = rest.subspan(1);
  }
}

template <typename Step>
void check_steps(const format::Entry& entry, const ArtefactGraph& read, const std::vector<Step>& steps) {
  std::span<const Step> rest = steps;
  take_steps(entry, read.graph, read.plan, rest);
  if (!rest.empty()) refuse(entry, fmt::format("step '{}' belongs to no group", rest.front().name));
}

}  // namespace

void check_artefact(const std::vector<uint8_t>& artefact) {
  const format::Artefact parsed = format::Artefact::parse(artefact);
  const format::Manifest& manifest = parsed.manifest();
  for (size_t e = 0; e < manifest.entries.size(); ++e) {
    const format::Entry& entry = manifest.entries[e];
    const std::string& target = manifest.targets[static_cast<size_t>(entry.target)].arch;
    const ArtefactGraph read = read_graph(artefact, target, static_cast<int>(e % manifest.combinations()));
    if (read.plan.name != entry.name) refuse(entry, fmt::format("its plan is of '{}'", read.plan.name));
    check_tensors(entry, read.graph, read.graph.inputs, entry.inputs);
    check_extents(entry, read.graph);
    check_tensors(entry, read.graph, read.graph.outputs, entry.outputs);
    const bool is_cpu = manifest.kind() == format::TargetKind::kCpu;
    is_cpu ? check_steps(entry, read, entry.cpu_steps) : check_steps(entry, read, entry.cuda_steps);
  }
}

}  // namespace tw::artefact
