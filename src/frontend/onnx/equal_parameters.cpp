#include <unordered_set>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/liveness.h"

namespace tw::frontend {
namespace {

using Names = std::unordered_set<std::string>;

bool is_identity(const onnx::NodeProto& node) {
  const bool is_onnx = node.domain().empty() || node.domain() == "ai.onnx";
  return is_onnx && node.op_type() == "Identity" && node.input_size() == 1 && node.output_size() == 1;
}

// Of the main graph, behind its names in subgraphs.
Names read_by_others(const onnx::GraphProto& graph) {
  Names names;
  for (const auto& node : graph.node()) {
    if (!is_identity(node)) add_names_read(node, names);
  }
  return names;
}

}  // namespace

void part_equal_parameters(onnx::GraphProto& graph) {
  std::map<std::string, int> parameters;
  for (int i = 0; i < graph.initializer_size(); ++i) {
    if (graph.initializer(i).data_type() == onnx::TensorProto::FLOAT) parameters[graph.initializer(i).name()] = i;
  }
  const Names read = read_by_others(graph);
  Names outputs;
  for (const auto& output : graph.output()) outputs.insert(output.name());
  NodeList kept;
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    const auto found = is_identity(node) ? parameters.find(node.input(0)) : parameters.end();
    if (found == parameters.end() || !read.contains(found->first) || outputs.contains(node.output(0))) {
      *kept.Add() = std::move(node);
      continue;
    }
    onnx::TensorProto own = graph.initializer(found->second);
    own.set_name(node.output(0));
    *graph.add_initializer() = std::move(own);
  }
  graph.mutable_node()->Swap(&kept);
}

}  // namespace tw::frontend
