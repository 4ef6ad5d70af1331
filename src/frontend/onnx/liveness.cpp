#include "frontend/onnx/liveness.h"

namespace tw::frontend {
namespace {

using Names = std::unordered_set<std::string>;

// Every name that appears inside a subgraph: more than it captures, which only keeps a node too many alive.
void add_subgraph_names(const onnx::GraphProto& graph, Names& names) {
  for (const auto& node : graph.node()) add_names_read(node, names);
  for (const auto& output : graph.output()) names.insert(output.name());
}

std::vector<bool> scan(const NodeList& nodes, Names& needed) {
  std::vector<bool> live(nodes.size(), false);
  for (int i = nodes.size(); i-- > 0;) {
    for (const std::string& output : nodes[i].output())
      live[i] = live[i] || (!output.empty() && needed.count(output) != 0);
    if (live[i]) add_names_read(nodes[i], needed);
  }
  return live;
}

}  // namespace

void add_names_read(const onnx::NodeProto& node, Names& names) {
  names.insert(node.input().begin(), node.input().end());
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_g()) add_subgraph_names(attribute.g(), names);
    for (const auto& graph : attribute.graphs()) add_subgraph_names(graph, names);
  }
}

std::vector<bool> live_nodes(const NodeList& nodes, Names needed) { return scan(nodes, needed); }

Names names_read(const NodeList& nodes, Names needed) {
  scan(nodes, needed);
  return needed;
}

}  // namespace tw::frontend
