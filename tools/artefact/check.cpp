#include "artefact/check.h"

#include <algorithm>
#include <set>

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

// Where the steps of the groups so far may end. Steps come in the order of groups, one with a group's name or several
// with that and their own behind it; which of these are a group's its name alone does not say, where groups of a
// gradient share it.
using Ends = std::set<size_t>;

template <typename Step>
Ends behind_group(const std::string& name, const std::vector<Step>& steps, const Ends& begins) {
  Ends ends;
  for (const size_t begin : begins) {
    if (begin < steps.size() && steps[begin].name == name) ends.insert(begin + 1);
    for (size_t s = begin; s < steps.size() && steps[s].name.starts_with(name + " ("); ++s) ends.insert(s + 1);
  }
  return ends;
}

template <typename Step>
void take_steps(const format::Entry& entry, const graph::Graph& graph, const plan::EntryPlan& plan,
                const std::vector<Step>& steps, Ends& ends) {
  size_t loops = 0;
  for (size_t g = 0; g < graph.nodes.size(); ++g) {
    if (const graph::Node* loop = graph::loop_of(graph.nodes[g])) {
      take_steps(entry, *loop->body, plan.bodies.at(loops++), steps, ends);
      continue;
    }
    if (!plan::has_code(plan.groups.at(g))) continue;
    ends = behind_group(plan.groups[g].name, steps, ends);
    if (ends.empty()) refuse(entry, fmt::format("no step computes group '{}'", plan.groups[g].name));
  }
}

template <typename Step>
void check_steps(const format::Entry& entry, const ArtefactGraph& read, const std::vector<Step>& steps) {
  Ends ends = {0};
  take_steps(entry, read.graph, read.plan, steps, ends);
  if (!ends.contains(steps.size()))
    refuse(entry, fmt::format("step '{}' belongs to no group", steps[*ends.rbegin()].name));
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
