// What is computed again: the same gradients, bit for bit, with fewer values kept.
#include "transform/train/recompute.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/harness/graph_evaluate.h"
#include "tests/transform/train/gradient_check.h"
#include "transform/pass.h"
#include "transform/train/differentiate.h"

namespace tw::testing {
namespace {

using graph::Graph;
using graph::ValueId;
using transform::Recompute;

TensorType f32(Shape shape) { return {DataType::f32(), std::move(shape)}; }

struct Network {
  Graph graph;
  std::vector<ValueId> wanted;
  ValueId loss = graph::kAbsent;
  size_t forward = 0;
};

// Layers of a product, a sigmoid and a softmax, 32 x 16 each; gradients for all weights.
Network network(int layers) {
  Network n;
  Graph& g = n.graph;
  g.name = "layers";
  ValueId x = g.add_input("x", f32({32, 16}));
  for (int k = 0; k < layers; ++k) {
    n.wanted.push_back(g.add_input("w", f32({16, 16})));
    const ValueId y = add_node(g, "matmul", {x, n.wanted.back()});
    x = add_node(g, "softmax", {add_node(g, "sigmoid", {y})});
  }
  n.loss = add_node(g, "reduce_sum", {add_node(g, "mul", {x, x})}, {{"keepdims", int64_t{0}}});
  n.forward = g.nodes.size();
  g.outputs = transform::differentiate(g, operators(), n.loss, n.wanted);
  g.outputs.push_back(n.loss);
  return n;
}

// Values of the forward pass that later nodes read.
int kept(const Graph& g, size_t forward) {
  const std::vector<int> producers = g.producers();
  std::vector<bool> seen(g.values.size(), false);
  for (size_t n = forward; n < g.nodes.size(); ++n) {
    if (g.nodes[n].has_attr(transform::kAgain)) continue;
    for (const ValueId in : g.nodes[n].inputs) {
      const int producer = producers[static_cast<size_t>(in)];
      if (producer >= 0 && static_cast<size_t>(producer) < forward) seen[static_cast<size_t>(in)] = true;
    }
  }
  return static_cast<int>(std::ranges::count(seen, true));
}

int count(const Graph& g, const std::string& op) {
  return static_cast<int>(std::ranges::count(g.nodes, op, &graph::Node::op));
}

std::vector<graph::RefTensor> gradients(const Graph& g) {
  std::mt19937_64 random(3);
  std::vector<graph::RefTensor> inputs, out;
  for (const ValueId in : g.inputs) inputs.push_back(random_tensor(g.value(in).type, {-1, 1}, random));
  const std::vector<graph::RefTensor> values = graph::evaluate(g, operators(), inputs, graph::Rounding::kEachValue);
  for (const ValueId id : g.outputs) out.push_back(values[id]);
  return out;
}

void expect_same(const Graph& a, const Graph& b) {
  const std::vector<graph::RefTensor> want = gradients(a), got = gradients(b);
  ASSERT_EQ(want.size(), got.size());
  for (size_t k = 0; k < want.size(); ++k) EXPECT_EQ(want[k].floats, got[k].floats) << "gradient " << k;
}

TEST(Recompute, OffChangesNothing) {
  Network n = network(3);
  const std::string before = graph::to_string(n.graph);
  EXPECT_EQ(transform::recompute(n.graph, operators(), n.forward, {}).values, 0);
  EXPECT_EQ(graph::to_string(n.graph), before);
}

TEST(Recompute, CheapValuesTakeNoProducts) {
  const Network plain = network(4);
  Network n = plain;
  const transform::Recomputed done = transform::recompute(n.graph, operators(), n.forward, {1, 1});
  graph::verify(n.graph, operators());
  EXPECT_GT(done.values, 0);
  EXPECT_LT(kept(n.graph, n.forward), kept(plain.graph, plain.forward));
  EXPECT_EQ(count(n.graph, "matmul"), count(plain.graph, "matmul"));
  expect_same(plain.graph, n.graph);
}

TEST(Recompute, ASmallerShareIsLess) {
  Network all = network(6), half = network(6);
  const transform::Recomputed most = transform::recompute(all.graph, operators(), all.forward, {1, 1}),
                              some = transform::recompute(half.graph, operators(), half.forward, {0.5, 1});
  EXPECT_GT(some.values, 0);
  EXPECT_LT(some.bytes, most.bytes);
}

TEST(Recompute, ProductsBetweenThoseThatAreKept) {
  const Network plain = network(6);
  Network n = plain;
  transform::recompute(n.graph, operators(), n.forward, {1, 3});
  graph::verify(n.graph, operators());
  EXPECT_GT(count(n.graph, "matmul"), count(plain.graph, "matmul"));
  EXPECT_LE(count(n.graph, "matmul"), count(plain.graph, "matmul") + 4) << "each once at most";
  expect_same(plain.graph, n.graph);
}

// Sums of what is made of the first of two products stand behind that; what is as large as it stays.
TEST(PlaceEarly, BehindWhatIsRead) {
  Graph g;
  const ValueId x = g.add_input("x", f32({4, 4})), w = g.add_input("w", f32({4, 4}));
  const ValueId a = add_node(g, "matmul", {x, w}), b = add_node(g, "matmul", {a, w});
  const ValueId of_b = add_node(g, "neg", {b}), of_a = add_node(g, "neg", {a});
  const ValueId sum = add_node(g, "reduce_sum", {add_node(g, "mul", {of_a, of_a})}), large = add_node(g, "tanh", {a});
  g.outputs = {of_b, sum, large};
  transform::place_early(g, operators(), 2);
  graph::verify(g, operators());
  std::vector<std::string> names;
  for (const graph::Node& node : g.nodes) names.push_back(node.op);
  EXPECT_EQ(names, (std::vector<std::string>{"matmul", "neg", "mul", "reduce_sum", "matmul", "neg", "tanh"}));
}

// Passes keep both: else nothing would be saved.
TEST(Recompute, PassesDoNotUndoIt) {
  const transform::TransformContext context{operators(), TargetInfo{}};
  Network n = network(4);
  transform::recompute(n.graph, operators(), n.forward, {1, 2});
  const auto products = [](const Graph& groups) {
    int found = 0;
    for (const graph::Node& node : groups.nodes) found += node.is_group() ? count(*node.body, "matmul") : 0;
    return found;
  };
  const Network plain = network(4);
  EXPECT_EQ(
      products(transform::transform(n.graph, context, {})) - products(transform::transform(plain.graph, context, {})),
      count(n.graph, "matmul") - count(plain.graph, "matmul"));
}

}  // namespace
}  // namespace tw::testing
