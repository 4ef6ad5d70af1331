// The order of a model's nodes: each behind those whose outputs it reads.
#pragma once
#include <onnx-ml.pb.h>

#include <string>
#include <vector>

namespace tw::frontend {

/// Sorts the nodes of the graph, of its subgraphs and of functions where one comes before what it reads; all others
/// keep their places. Returns a warning for each list that was sorted. UserError for nodes that need each other.
std::vector<std::string> sort_nodes(onnx::ModelProto& model);

}  // namespace tw::frontend
