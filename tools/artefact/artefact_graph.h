// The graph of groups inside an artefact, and the artefact with every value in a place of its own.
#pragma once
#include <cstdint>
#include <vector>

#include "artefact/session.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "runtime/format/manifest.h"

namespace tw::artefact {

struct ArtefactGraph {
  graph::Graph graph;  // of groups, constants read back from the weights
  plan::EntryPlan plan;
  DataType dtype;                     // of what the model had in f32
  std::vector<format::State> states;  // of the artefact: not all need be in the graph
  std::vector<format::Extent> extents;
};

/// Index in the manifest of entry `entry` of the target named `target`. Pre: the artefact has both.
size_t manifest_entry(const format::Manifest& manifest, const std::string& target, int entry);

/// Of what a session took and gave those arrays that are inputs and outputs of the graph, in its order: an entry need
/// not have all states. Those of a state that callers see in parts are put together. Inputs have the graph's shapes, as
/// the runtime fills them up, and its extents are behind them; outputs have those that they came in.
struct GraphArrays {
  std::vector<Array> inputs, outputs;
};
GraphArrays arrays_of(const ArtefactGraph& read, const std::vector<Array>& inputs, const std::vector<Array>& outputs);

/// What the artefact says of that entry. Throws format::Error when the artefact is damaged, UserError when it
/// was written without its graph or plan.
ArtefactGraph read_graph(const std::vector<uint8_t>& artefact, const std::string& target, int entry);

/// The same artefact but for its arenas: no two buffers share bytes, so that all can be read after a run.
std::vector<uint8_t> keep_buffers_apart(const std::vector<uint8_t>& artefact);

/// The nodes of all groups in one graph, with inputs, outputs and constants of `graph`.
graph::Graph without_groups(const graph::Graph& graph);

}  // namespace tw::artefact
