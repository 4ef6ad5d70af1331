// Imports and evaluates the models that tests build.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "frontend/onnx/import.h"
#include "ops/list.h"
#include "tests/harness/graph_evaluate.h"
#include "tests/onnx/model_builder.h"

namespace tw::testing {

inline const graph::OpTable& table() {
  static const graph::OpTable kOps = ops::all_ops();
  return kOps;
}

/// The model as a verified graph.
inline frontend::ImportResult import_model(const ModelBuilder& builder, const frontend::ImportOptions& options = {}) {
  frontend::ImportResult result = frontend::import_onnx_bytes(builder.bytes(), "", table(), options);
  graph::verify(result.graph, table());
  return result;
}

/// f32[shape] of these values.
inline graph::RefTensor tensor(const Shape& shape, std::vector<double> values) {
  return {.type = {DataType::f32(), shape}, .floats = std::move(values), .ints = {}};
}

/// The model's first output for these inputs.
inline graph::RefTensor run(const ModelBuilder& builder, std::vector<graph::RefTensor> inputs,
                            const frontend::ImportOptions& options = {}) {
  const graph::Graph graph = import_model(builder, options).graph;
  return graph::evaluate(graph, table(), std::move(inputs), graph::Rounding::kEachValue).at(graph.outputs[0]);
}

/// The number of nodes with this operator.
inline int count(const graph::Graph& graph, const std::string& op) {
  int n = 0;
  for (const graph::Node& node : graph.nodes) n += node.op == op;
  return n;
}

}  // namespace tw::testing
