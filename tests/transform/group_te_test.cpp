// Groups as te programs: what fusion puts together has a te that computes the same, in logical layouts and in those
// that assign-layouts chose.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "te/materialize.h"
#include "te/rewrite.h"
#include "tests/harness/graph_evaluate.h"
#include "tests/harness/te_evaluate.h"
#include "tests/transform/graph_tools.h"
#include "transform/storage_order.h"

namespace tw::transform {
namespace {

using graph::Graph;
using graph::RefTensor;
using graph::ValueId;
using testing::context;

constexpr uint64_t kGraphs = 150;
constexpr double kTolerance = 1e-9;  // te and reference sum in different orders

te::TensorValues to_values(const RefTensor& t) { return {t.type.type, t.type.shape, t.floats, t.ints}; }

// The elements of a tensor in another order: `layout` moves indices as it moves bytes.
te::TensorValues stored(const te::TensorValues& logical, const Layout& layout) {
  te::TensorValues out = logical;
  out.shape = layout.storage_shape(logical.shape);
  std::vector<int64_t> places(static_cast<size_t>(num_elements(logical.shape)));
  for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i);
  const std::vector<std::byte> moved =
      te::materialize(std::as_bytes(std::span(places)), sizeof(int64_t), logical.shape, layout);
  for (size_t i = 0; i < places.size(); ++i) {
    int64_t from = 0;
    std::memcpy(&from, moved.data() + i * sizeof(from), sizeof(from));
    if (!logical.floats.empty()) out.floats[i] = logical.floats[static_cast<size_t>(from)];
    if (!logical.ints.empty()) out.ints[i] = logical.ints[static_cast<size_t>(from)];
  }
  return out;
}

void expect_equal(const te::TensorValues& wanted, const te::TensorValues& got) {
  ASSERT_EQ(wanted.shape, got.shape);
  ASSERT_EQ(wanted.ints, got.ints);
  for (size_t i = 0; i < wanted.floats.size(); ++i) {
    const double a = wanted.floats[i], b = got.floats[i];
    ASSERT_TRUE(a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= kTolerance * (1 + std::abs(a)))
        << i << ": " << a << ", te " << b;
  }
}

void check_group(const Graph& graph, const graph::Node& node, const std::vector<RefTensor>& values) {
  const graph::GroupProgram group = graph::to_te(*node.body, context().ops);
  te::ValueMap logical, in_layouts;
  std::map<std::string, Layout> layouts;
  for (size_t k = 0; k < group.inputs.size(); ++k) {
    const auto at = std::find(node.body->inputs.begin(), node.body->inputs.end(), group.inputs[k]);
    ASSERT_NE(at, node.body->inputs.end());
    const ValueId outer = node.inputs[static_cast<size_t>(at - node.body->inputs.begin())];
    const std::string& tensor = group.program.inputs[k].name;
    logical[tensor] = to_values(values.at(outer));
    layouts[tensor] = graph.value(outer).layout;
    in_layouts[tensor] = stored(logical[tensor], layouts[tensor]);
  }
  for (size_t k = 0; k < node.outputs.size(); ++k)
    layouts[group.output_tensors[k]] = graph.value(node.outputs[k]).layout;
  const te::ValueMap plain = te::evaluate(group.program, logical);
  const te::ValueMap moved = te::evaluate(te::apply_layouts(group.program, layouts), in_layouts);
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const te::TensorValues wanted = to_values(values.at(node.outputs[k]));
    expect_equal(wanted, plain.at(group.output_tensors[k]));
    expect_equal(stored(wanted, graph.value(node.outputs[k]).layout), moved.at(group.output_tensors[k]));
  }
}

TEST(GroupTe, ComputesWhatTheGroupDoes) {
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    const Graph graph = transform(testing::random_graph(seed), context(), {});
    const std::vector<RefTensor> values =
        graph::evaluate(graph, context().ops, testing::random_inputs(graph, seed), graph::Rounding::kNone);
    for (const graph::Node& node : graph.nodes) {
      check_group(graph, node, values);
      if (HasFailure()) FAIL() << "seed " << seed << ", group " << node.name << "\n" << graph::to_string(graph);
    }
  }
}

// A view moves no bytes: its storage is its input's.
TEST(GroupTe, ViewsKeepTheirBytes) {
  int views = 0;
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    const Graph graph = transform(testing::random_graph(seed), context(), {});
    const std::vector<RefTensor> values =
        graph::evaluate(graph, context().ops, testing::random_inputs(graph, seed), graph::Rounding::kNone);
    for (const graph::Node& node : graph.nodes) {
      if (!is_view(graph, node)) continue;
      ++views;
      const te::TensorValues in = stored(to_values(values.at(node.inputs[0])), graph.value(node.inputs[0]).layout);
      const te::TensorValues out = stored(to_values(values.at(node.outputs[0])), graph.value(node.outputs[0]).layout);
      ASSERT_EQ(in.floats, out.floats) << "seed " << seed << ", " << node.name;
    }
  }
  EXPECT_GT(views, 50);
}

}  // namespace
}  // namespace tw::transform
