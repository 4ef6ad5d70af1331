// The dataflow of one node.
#pragma once
#include <string>
#include <vector>

#include "dataflow/dataflow.h"
#include "tests/graph/sample.h"

namespace tw::dataflow::test {

using Ints = std::vector<int64_t>;
using graph::Attrs;
using graph::test::f32;

inline TensorType of_type(DataType type, Shape shape) { return {type, std::move(shape)}; }

inline Operator operator_of(const std::string& op, const std::vector<TensorType>& inputs, Attrs attrs = {}) {
  graph::Graph g;
  g.name = op;
  std::vector<graph::ValueId> ids;
  for (const TensorType& type : inputs) ids.push_back(g.add_input("x", type));
  g.outputs = {graph::test::add(g, op, ids, std::move(attrs))};
  return analyze(g, graph::test::table()).operators.at(0);
}

}  // namespace tw::dataflow::test
