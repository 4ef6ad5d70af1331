// Which reductions become part of a contraction's group, and that it computes the same.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/transform/graph_tools.h"

namespace tw::transform {
namespace {

using graph::Graph;

TransformContext gpu(int units) {
  TransformContext context = testing::context();
  context.target.kind = DeviceKind::kCuda;
  context.target.compute_units = units;
  context.target.levels.push_back({"L1", 228 << 10});
  return context;
}

size_t groups_after(const std::string& text, const TransformContext& context) {
  const Graph before = testing::parse(text);
  const Graph after = find_pass("fuse-reductions").run(testing::run_pass(before, "fuse"), context);
  graph::verify(after, testing::context().ops);
  testing::expect_same_function(before, after, 0);
  return after.nodes.size();
}

struct Case {
  int64_t tokens = 32, columns = 16;
  std::string op = "reduce_mean", axes = "1", kept = "3, 16";
  std::string output = "m";
};

// A product, bias and ReLU, then a reduction and what is done with its result.
std::string pooled(const Case& c) {
  return fmt::format(R"text(graph g {{
  input x : f16[3, {0}, 16]
  input w : f16[16, {5}]
  input b : f16[{5}]
  p : f16[3, {0}, {5}] = matmul(x, w) as p
  a : f16[3, {0}, {5}] = add(p, b) as a
  y : f16[3, {0}, {5}] = relu(a) as y
  r : f16[{3}] = {1}(y) {{axes = [{2}], keepdims = 0}} as r
  m : f16[{3}] = relu(r) as m
  output {4}
}})text",
                     c.tokens, c.op, c.axes, c.kept, c.output, c.columns);
}

TEST(FuseReductions, RowsThatOnlyAReductionReadsStayInTheirTiles) {
  EXPECT_EQ(groups_after(pooled({}), gpu(2)), 1u);
  EXPECT_EQ(groups_after(pooled({.op = "reduce_max"}), gpu(2)), 1u);
  EXPECT_EQ(groups_after(pooled({.op = "reduce_sum"}), gpu(2)), 1u);
  EXPECT_EQ(groups_after(pooled({.tokens = 96}), gpu(2)), 1u);
  EXPECT_EQ(groups_after(pooled({.axes = "2", .kept = "3, 32"}), gpu(2)), 1u) << "rows of the transposed product";
}

TEST(FuseReductions, OtherReductionsStayApart) {
  EXPECT_EQ(groups_after(pooled({.axes = "0", .kept = "32, 16"}), gpu(2)), 2u) << "three rows";
  EXPECT_EQ(groups_after(pooled({.axes = "1, 2", .kept = "3"}), gpu(2)), 2u) << "of columns and rows";
  EXPECT_EQ(groups_after(pooled({.tokens = 131}), gpu(2)), 2u) << "a prime number of rows, more than a tile has";
  EXPECT_EQ(groups_after(pooled({.tokens = 5}), gpu(2)), 2u) << "too few rows";
  EXPECT_EQ(groups_after(pooled({.columns = 4, .kept = "3, 4"}), gpu(2)), 2u) << "vectors, not matrices";
  EXPECT_EQ(groups_after(pooled({}), testing::context()), 2u) << "a CPU";
}

TEST(FuseReductions, RowsMayLeaveBesideTheirReduction) {
  EXPECT_EQ(groups_after(pooled({.output = "m, y"}), gpu(2)), 1u);
}

TEST(FuseReductions, OddColumnsAreCombinedInParts) {
  EXPECT_EQ(groups_after(pooled({.columns = 17, .kept = "3, 17"}), gpu(2)), 1u);
  EXPECT_EQ(groups_after(pooled({.tokens = 256, .columns = 17, .kept = "3, 17"}), gpu(2)), 1u);
  EXPECT_EQ(groups_after(pooled({.tokens = 256}), gpu(2)), 1u);
}

// Each reduction reads the rows of both products: as two groups they would wait for each other.
TEST(FuseReductions, CrossedRowsMakeNoCircle) {
  const std::string crossed = R"text(graph g {
  input x : f16[3, 32, 16]
  input z : f16[3, 32, 16]
  input w : f16[16, 16]
  p : f16[3, 32, 16] = matmul(x, w) as p
  q : f16[3, 32, 16] = matmul(z, w) as q
  a : f16[3, 32, 16] = add(p, q) as a
  r : f16[3, 16] = reduce_sum(a) {axes = [1], keepdims = 0} as r
  b : f16[3, 32, 16] = mul(q, p) as b
  s : f16[3, 16] = reduce_sum(b) {axes = [1], keepdims = 0} as s
  output r, s
})text";
  EXPECT_EQ(groups_after(crossed, gpu(2)), 3u);
}

// Of caches near a unit, and memory that takes `bytes` in a ns.
TransformContext cpu(double bytes) {
  TransformContext context = testing::context();
  context.target.flop_per_ns = 100;
  for (const auto& [capacity, rate] : {std::pair<int64_t, double>{1 << 10, 200}, {4 << 10, 100}, {1 << 30, bytes}}) {
    MemoryLevel level;
    level.capacity_bytes = capacity;
    level.read_per_ns = rate;
    context.target.levels.push_back(level);
  }
  return context;
}

// A product of two matrices and the sums of its columns.
constexpr const char* kColumnSums = R"text(graph g {
  input x : f32[64, 16]
  input w : f32[16, 48]
  y : f32[64, 48] = matmul(x, w) as y
  s : f32[1, 48] = reduce_sum(y) {axes = [0], keepdims = 1} as s
  output y, s
}
)text";

TEST(FuseReductions, OnCpusWhereReadingTheRowsAgainTakesLonger) {
  EXPECT_EQ(groups_after(kColumnSums, cpu(1)), 1u);
  EXPECT_EQ(groups_after(kColumnSums, cpu(90)), 2u) << "memory is as fast as L2";
  TransformContext eager = cpu(90);
  eager.variant = kAlways;
  EXPECT_EQ(groups_after(kColumnSums, eager), 1u);
  EXPECT_EQ(groups_after(pooled({}), cpu(1)), 2u) << "several matrices";
  EXPECT_EQ(groups_after(kColumnSums, testing::context()), 2u) << "nothing is known of its caches";
}

// The gate of a squeeze and excitation: its mean is of what it is multiplied with, which leaves, too.
TEST(FuseReductions, RowsThatOthersReadLeave) {
  const std::string text = R"text(graph g {
  input x : f16[3, 32, 16]
  input w : f16[16, 16]
  y : f16[3, 32, 16] = matmul(x, w) as y
  r : f16[3, 1, 16] = reduce_mean(y) {axes = [1], keepdims = 1} as r
  s : f16[3, 1, 16] = sigmoid(r) as s
  m : f16[3, 32, 16] = mul(y, s) as m
  output m
})text";
  EXPECT_EQ(groups_after(text, testing::context()), 3u);
  EXPECT_EQ(groups_after(text, gpu(2)), 2u);
}

// 9 rows fill 16 only by half: worth it where products are few, and what measuring is to decide does it anyway.
TEST(FuseReductions, TilesThatAreNotFilledMustSaveMoreThanTheyCost) {
  const auto image = [](int64_t channels) {
    return fmt::format(R"text(graph g {{
  input x : f16[8, {0}, 6, 6] layout "reorder(0, 2, 3, 1)"
  input w : f16[32, {0}, 3, 3]
  y : f16[8, 32, 6, 6] layout "reorder(0, 2, 3, 1)" = conv(x, w) {{pads = [1, 1, 1, 1]}} as y
  r : f16[8, 32, 1, 1] = reduce_mean(y) {{axes = [2, 3], keepdims = 1}} as r
  output r
}})text",
                       channels);
  };
  TransformContext context = gpu(132);
  EXPECT_EQ(groups_after(image(4), context), 1u);
  EXPECT_EQ(groups_after(image(256), context), 2u);
  context.variant = kAlways;
  EXPECT_EQ(groups_after(image(256), context), 1u);
}

}  // namespace
}  // namespace tw::transform
