// Which nodes of a graph, subgraph or function body its outputs need.
#pragma once
#include <onnx-ml.pb.h>

#include <string>
#include <unordered_set>
#include <vector>

namespace tw::frontend {

using NodeList = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

/// For each node whether a name of `needed` depends on it. Nodes are in topological order, so one backward scan does
/// it; names that a node's subgraphs read count as read by the node.
std::vector<bool> live_nodes(const NodeList& nodes, std::unordered_set<std::string> needed);

/// Adds the names that the node and its subgraphs read.
void add_names_read(const onnx::NodeProto& node, std::unordered_set<std::string>& names);

/// `needed` and every name that live nodes read.
std::unordered_set<std::string> names_read(const NodeList& nodes, std::unordered_set<std::string> needed);

}  // namespace tw::frontend
