// Products of f32 that multiply tf32: which ones, and how far their results are from those before.
#include <gtest/gtest.h>

#include "expr/tf32.h"
#include "graph/ref_tensor.h"
#include "tests/transform/graph_tools.h"

namespace tw::transform {
namespace {

using graph::Graph;
using graph::Node;
using graph::RefTensor;
using graph::ValueId;
using testing::count_nodes;

TransformContext gpu(Precision precision = Precision::kFast) {
  TransformContext context = testing::context();
  context.target.features = {"tf32"};
  context.precision = precision;
  return context;
}

// One operator; w is a constant where its shape is given so.
struct Operands {
  Shape x, w;
  bool constant = true;
  DataType type = DataType::f32();
};

Graph product(const std::string& op, const Operands& of, const graph::Attrs& attrs = {}) {
  Graph g;
  g.name = "g";
  const ValueId x = g.add_input("x", {of.type, of.x});
  RefTensor weights = RefTensor::zeros({of.type, of.w});
  for (size_t i = 0; i < weights.floats.size(); ++i) weights.floats[i] = 0.1 * static_cast<double>(i * 7 % 19) - 1;
  weights.round_to_type();
  const ValueId w =
      of.constant ? g.add_constant("w", weights.type, share(weights.to_bytes())) : g.add_input("w", weights.type);
  const Node node{.op = op, .name = "y", .attrs = attrs, .inputs = {x, w}, .outputs = {}, .body = nullptr};
  g.outputs = graph::append_node(g, testing::context().ops, node);
  return g;
}

Graph rounded(const Graph& before, const TransformContext& context = gpu()) {
  Graph after = find_pass("round-operands").run(before, context);
  graph::verify(after, context.ops);
  testing::expect_same_function(before, after, 0x1p-5);  // sums of up to 144 products of up to 1
  return after;
}

bool rounds(const Graph& g) { return g.nodes.back().has_attr("operands"); }

TEST(RoundOperands, OfProductsThatFillInstructions) {
  EXPECT_TRUE(rounds(rounded(product("matmul", {{16, 24}, {24, 16}}))));
  EXPECT_TRUE(rounds(rounded(product("matmul", {{2, 16, 24}, {2, 24, 16}, false}))));
  EXPECT_TRUE(rounds(rounded(product("matmul", {{4, 4, 24}, {24, 16}}))));
  EXPECT_TRUE(rounds(rounded(product("conv", {{1, 16, 6, 6}, {16, 16, 3, 3}}))));
  EXPECT_TRUE(rounds(rounded(product("conv", {{1, 32, 6, 6}, {32, 16, 1, 1}}, {{"group", int64_t{2}}}))));
}

TEST(RoundOperands, NotOfOthers) {
  const Graph large = product("matmul", {{16, 24}, {24, 16}});
  EXPECT_FALSE(rounds(rounded(large, gpu(Precision::kDefault))));
  EXPECT_FALSE(rounds(rounded(large, gpu(Precision::kStrict))));
  TransformContext without = gpu();
  without.target.features = {};
  EXPECT_FALSE(rounds(rounded(large, without)));
  EXPECT_FALSE(rounds(rounded(product("matmul", {{15, 24}, {24, 16}}))));
  EXPECT_FALSE(rounds(rounded(product("matmul", {{16, 15}, {15, 16}}))));
  EXPECT_FALSE(rounds(rounded(product("matmul", {{16, 24}, {24, 8}}))));
  EXPECT_FALSE(rounds(rounded(product("matmul", {{2, 8, 24}, {2, 24, 16}, false}))));
  EXPECT_FALSE(rounds(rounded(product("matmul", {{24}, {24, 16}}))));
  EXPECT_FALSE(rounds(rounded(product("matmul", {{16, 24}, {24, 16}, true, DataType::f64()}))));
  EXPECT_FALSE(rounds(rounded(product("conv", {{1, 32, 6, 6}, {32, 1, 3, 3}}, {{"group", int64_t{32}}}))));
}

// Weights become the nearest numbers that the product leaves as they are.
TEST(RoundOperands, ConstantsAreRoundedToTheNearest) {
  const Graph before = product("matmul", {{16, 24}, {24, 16}}), after = rounded(before);
  const graph::Value& w = after.value(after.nodes.back().inputs[1]);
  const RefTensor was = RefTensor::from_bytes(w.type, *before.value(before.nodes.back().inputs[1]).constant);
  const RefTensor is = RefTensor::from_bytes(w.type, *w.constant);
  for (size_t i = 0; i < is.floats.size(); ++i)
    EXPECT_EQ(is.floats[i], nearest_tf32(static_cast<float>(was.floats[i])));
}

}  // namespace
}  // namespace tw::transform
