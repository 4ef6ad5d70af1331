// Dropouts of both directions share their bits: on GPUs, and on CPUs where that is measured as faster.
#include <gtest/gtest.h>

#include "tests/transform/graph_tools.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

const char* const kBothWays = R"(graph g {
  input x : f32[5, 9]
  input dy : f32[5, 9]
  input seed : i64[]
  input step : i64[]
  a : f32[5, 9] = dropout(x, seed, step) {ratio = 0.5, stream = 0}
  da : f32[5, 9] = dropout(dy, seed, step) {ratio = 0.5, stream = 0}
  b : f32[5, 9] = dropout(a, seed, step) {ratio = 0.25, stream = 1}
  y : f32[5, 9] = mul(b, da)
  output y
})";

graph::Graph stored(const graph::Graph& graph, std::string_view variant, DeviceKind device = DeviceKind::kCpu) {
  TransformContext context = testing::context();
  context.target.kind = device;
  context.variant = variant;
  return store_masks(graph, context);
}

TEST(StoreMasks, UsuallyNothingIsStoredOnCpus) {
  const graph::Graph graph = testing::parse(kBothWays);
  EXPECT_EQ(testing::count_nodes(stored(graph, {}), "dropout_bits"), 0);
  EXPECT_EQ(testing::count_nodes(stored(graph, {}, DeviceKind::kCuda), "dropout_bits"), 1);
}

TEST(StoreMasks, DropoutsOfOneStreamShareTheirBits) {
  const graph::Graph graph = testing::parse(kBothWays), after = stored(graph, kAlways);
  EXPECT_EQ(testing::count_nodes(after, "dropout_bits"), 1);
  EXPECT_EQ(testing::count_nodes(after, "dropout_by_bits"), 2);
  EXPECT_EQ(testing::count_nodes(after, "dropout"), 1) << "one by itself has nobody to share with";
  testing::expect_same_function(graph, after, 0);
}

}  // namespace
}  // namespace tw::transform
