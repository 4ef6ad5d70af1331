// Gradients of small networks, on the interpreter: the passes keep what the graph computes, and the kernel that each
// group would have without a measurement computes the group's maths.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/list.h"
#include "tests/construct/models/group_check.h"
#include "tests/harness/graph_evaluate.h"
#include "tests/transform/train/networks.h"
#include "transform/pass.h"
#include "transform/train/differentiate.h"

namespace tw::construct {
namespace {

using graph::Graph;
using graph::RefTensor;
using graph::ValueId;

// The loss and its gradients for all parameters.
Graph with_gradients(const testing::Network& network, const graph::OpTable& ops) {
  Graph g = network.graph;
  std::vector<ValueId> wanted;
  for (const ValueId in : g.inputs) {
    if (g.value(in).type.type.is_float()) wanted.push_back(in);
  }
  for (const ValueId gradient : transform::differentiate(g, ops, g.outputs[0], wanted)) g.outputs.push_back(gradient);
  return g;
}

void check_network(testing::Network (*network)(DataType)) {
  const graph::OpTable ops = ops::all_ops();
  const testing::Network made = network(DataType::f32());
  const Graph g = with_gradients(made, ops);
  for (const char* name : {"cpu:x86-64-v3", "cpu:x86-64-v4", "cuda:sm_90a"}) {
    SCOPED_TRACE(name);
    const targets::Target target = targets::find_target(name);
    for (const DataType type : {DataType::f32(), DataType::f16(), DataType::bf16()}) {
      SCOPED_TRACE(to_string(type));
      transform::TransformContext context{ops, target.info};
      context.dtype = type;
      const Graph groups = transform::transform(g, context, {});
      expect_same(g, groups, made.values, type == DataType::f32() ? 1e-5 : type == DataType::f16() ? 0.02 : 0.1);
      check_groups(groups, ops, target);
    }
  }
}

TEST(GradientKernels, Perceptron) { check_network(testing::perceptron); }
TEST(GradientKernels, Convolutions) { check_network(testing::convolutions); }
TEST(GradientKernels, Attention) { check_network(testing::attention); }
TEST(GradientKernels, PartedAttention) {
  check_network([](DataType type) { return testing::parted_attention(type, 32, 32); });
}

// Heads are read and written where they lie, in both passes: no kernel turns or multiplies queries, keys or gradients.
TEST(GradientKernels, PartedAttentionCopiesNoHeads) {
  const graph::OpTable ops = ops::all_ops();
  transform::TransformContext context{ops, targets::find_target("cuda:sm_90a").info};
  context.dtype = DataType::f16();
  const Graph g = with_gradients(testing::parted_attention(DataType::f32(), 512, 128), ops);
  const Graph groups = transform::transform(g, context, {});
  for (const graph::Node& group : groups.nodes) {
    // A transpose of what is stored in that order is a view.
    const bool copies = std::ranges::all_of(group.body->nodes, [&](const graph::Node& node) {
      return (node.op == "transpose" && groups.value(group.inputs[0]).layout.is_identity()) || node.op == "mul";
    });
    EXPECT_FALSE(copies) << group.name;
  }
}

}  // namespace
}  // namespace tw::construct
