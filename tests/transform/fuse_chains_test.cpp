// Which contractions become one group, and that it computes the same.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/transform/graph_tools.h"

namespace tw::transform {
namespace {

using graph::Graph;
using testing::expect_same_function;
using testing::parse;
using testing::run_pass;

// A CPU whose L2 holds `l2` bytes.
TransformContext machine(int64_t l2) {
  TransformContext context = testing::context();
  context.target.vector_bytes = 32;
  context.target.vector_registers = 16;
  context.target.flop_per_ns = 100;
  context.target.barrier_ns = 100;
  const int64_t capacities[] = {32 << 10, l2, 32 << 20, int64_t{1} << 34};
  const double rates[] = {160, 90, 40, 20};
  for (size_t i = 0; i < 4; ++i) {
    MemoryLevel level;
    level.capacity_bytes = capacities[i];
    level.read_per_ns = rates[i];
    context.target.levels.push_back(level);
  }
  return context;
}

struct Sizes {
  int64_t queries = 12, keys = 10;
  std::string axis = "3";    // of the softmax
  std::string output = "y";  // beside y
};

// A GPU whose tiles share as much memory as those of sm_90a.
TransformContext gpu() {
  TransformContext context = testing::context();
  context.target.kind = DeviceKind::kCuda;
  context.target.compute_units = 132;
  context.target.levels.push_back({"L1", 228 << 10});
  return context;
}

// Of 16-bit floats, the values cast from f32.
std::string halves(int64_t queries, int64_t keys, int64_t depth) {
  return fmt::format(R"(graph g {{
  input q : f16[2, 3, {0}, {2}]
  input k : f16[2, 3, {2}, {1}]
  input w : f32[2, 3, {1}, {2}]
  v : f16[2, 3, {1}, {2}] = cast(w) {{to = "f16"}} as v
  s : f16[2, 3, {0}, {1}] = matmul(q, k) as s
  p : f16[2, 3, {0}, {1}] = softmax(s) {{axis = 3}} as p
  y : f16[2, 3, {0}, {2}] = matmul(p, v) as y
  output y
}})",
                     queries, keys, depth);
}

std::string attention(const Sizes& s) {
  return fmt::format(R"(graph g {{
  input q : f32[2, 3, {0}, 4]
  input k : f32[2, 3, 4, {1}]
  input v : f32[2, 3, {1}, 5]
  input mask : f32[2, 1, 1, {1}]
  s : f32[2, 3, {0}, {1}] = matmul(q, k) as s
  m : f32[2, 3, {0}, {1}] = add(s, mask) as m
  p : f32[2, 3, {0}, {1}] = softmax(m) {{axis = {2}}} as p
  y : f32[2, 3, {0}, 5] = matmul(p, v) as y
  output {3}
}})",
                     s.queries, s.keys, s.axis, s.output);
}

size_t groups_after(const Graph& before, const TransformContext& context) {
  const Graph fused = run_pass(before, "fuse");
  const Graph after = find_pass("fuse-chains").run(fused, context);
  graph::verify(after, testing::context().ops);
  expect_same_function(before, after, 0);
  return after.nodes.size();
}

size_t groups_after(const Graph& before, int64_t l2) { return groups_after(before, machine(l2)); }

// The cast stays a kernel: not what its reader's rows come from.
TEST(FuseChains, AttentionOfHalvesIsOneGroup) {
  EXPECT_EQ(groups_after(parse(halves(16, 24, 8)), gpu()), 2u);
  EXPECT_EQ(groups_after(parse(halves(16, 2048, 16)), gpu()), 2u) << "keys and values come block by block";
  EXPECT_EQ(groups_after(parse(halves(4, 40, 8)), gpu()), 2u) << "few queries";
  EXPECT_EQ(groups_after(parse(halves(1, 2048, 64)), gpu()), 2u) << "one query, many keys";
  EXPECT_EQ(groups_after(parse(halves(40, 7, 40)), gpu()), 4u) << "vectors, not matrices";
  EXPECT_EQ(groups_after(parse(attention({40, 40})), gpu()), 3u) << "f32";
  EXPECT_EQ(groups_after(parse(attention({})), gpu()), 1u) << "rows so short that a thread has all of one";
}

// Rows of a product that the next one multiplies.
std::string two_products(int64_t rows, int64_t steps, int64_t middle, int64_t columns) {
  return fmt::format(R"(graph g {{
  input x : f16[{0}, {1}]
  input w : f16[{1}, {2}]
  input v : f16[{2}, {3}]
  s : f16[{0}, {2}] = matmul(x, w) as s
  r : f16[{0}, {2}] = relu(s) as r
  y : f16[{0}, {3}] = matmul(r, v) as y
  output y
}})",
                     rows, steps, middle, columns);
}

TEST(FuseChains, ProductsOneAfterTheOtherOnAGpu) {
  TransformContext target = gpu();
  EXPECT_EQ(groups_after(parse(two_products(16384, 256, 64, 16)), target), 1u);
  EXPECT_EQ(groups_after(parse(two_products(16384, 256, 264, 16)), target), 1u) << "a block of columns at a time";
  EXPECT_EQ(groups_after(parse(two_products(16384, 320, 264, 16)), target), 2u) << "wider than a warp holds";
  EXPECT_EQ(groups_after(parse(two_products(196, 1728, 192, 192)), target), 2u) << "tiles of rows for few SMs";
  EXPECT_EQ(groups_after(parse(two_products(16384, 4096, 64, 64)), target), 2u) << "little passes between them";
  EXPECT_EQ(groups_after(parse(two_products(2464, 4, 1, 4)), target), 1u) << "rows of one thread";
  target.variant = kProductsApart;
  EXPECT_EQ(groups_after(parse(two_products(16384, 256, 64, 16)), target), 2u);
  EXPECT_EQ(groups_after(parse(halves(16, 24, 8)), target), 2u) << "attention is one kernel all the same";
}

// Squeeze and excite: a block has all products of a row.
TEST(FuseChains, ProductsOfFewRowsAreOneGroup) {
  EXPECT_EQ(groups_after(parse(two_products(16, 672, 28, 672)), gpu()), 1u);
  EXPECT_EQ(groups_after(parse(two_products(16, 1152, 48, 1152)), gpu()), 2u) << "more than one SM reads in time";
  EXPECT_EQ(groups_after(parse(two_products(40, 2048, 512, 64)), gpu()), 2u);
}

std::string scaled_product(std::string_view output) {
  return fmt::format(R"(graph g {{
  input x : f16[6, 49, 96]
  input s : f16[6, 1, 96]
  input w : f16[96, 24]
  m : f16[6, 49, 96] = mul(x, s) as m
  y : f16[6, 49, 24] = matmul(m, w) as y
  output {}
}})",
                     output);
}

TEST(FuseChains, OperandsAreComputedWhereThatIsMeasuredToBeFaster) {
  TransformContext target = gpu();
  EXPECT_EQ(groups_after(parse(scaled_product("y")), target), 2u);
  target.variant = kOperandsComputed;
  EXPECT_EQ(groups_after(parse(scaled_product("y")), target), 1u);
  EXPECT_EQ(groups_after(parse(scaled_product("m, y")), target), 2u) << "another reader";
  EXPECT_EQ(groups_after(parse(two_products(16384, 256, 64, 16)), target), 1u);
}

TEST(FuseChains, AttentionIsOneGroup) { EXPECT_EQ(groups_after(parse(attention({})), 512 << 10), 1u); }

TEST(FuseChains, ValuesThatOthersReadStayApart) {
  EXPECT_EQ(groups_after(parse(attention({.output = "p, y"})), 512 << 10), 3u);
  EXPECT_EQ(groups_after(parse(attention({.output = "m, y"})), 512 << 10), 3u);
}

TEST(FuseChains, ReductionAcrossRowsStaysApart) {
  EXPECT_EQ(groups_after(parse(attention({.axis = "2"})), 512 << 10), 3u);
}

TEST(FuseChains, RowsThatTheSecondCacheDoesNotHoldStayApart) {
  EXPECT_EQ(groups_after(parse(attention({.queries = 12, .keys = 400})), 16 << 10), 3u);
  EXPECT_EQ(groups_after(parse(attention({.queries = 12, .keys = 400})), 512 << 10), 1u);
}

// x -> convolution of groups (of one channel: depthwise) -> clip -> 1 x 1, all channels last.
std::string separable(int64_t stride, int64_t channels_of_group = 1) {
  const int64_t out = stride == 1 ? 24 : 12;
  return fmt::format(R"text(graph g {{
  input x : f32[1, 32, 24, 24] layout "reorder(0, 2, 3, 1)"
  input w : f32[32, {2}, 3, 3]
  input u : f32[16, 32, 1, 1]
  d : f32[1, 32, {0}, {0}] layout "reorder(0, 2, 3, 1)" = conv(x, w) {{group = {3}, pads = [1, 1, 1, 1], strides = [{1}, {1}]}} as d
  c : f32[1, 32, {0}, {0}] layout "reorder(0, 2, 3, 1)" = clip(d) {{min = 0.0, max = 6.0}} as c
  y : f32[1, 16, {0}, {0}] layout "reorder(0, 2, 3, 1)" = conv(c, u) as y
  output y
}})text",
                     out, stride, channels_of_group, 32 / channels_of_group);
}

TEST(FuseChains, DepthwiseBeforeProjectionIsOneGroupAtUnitStride) {
  EXPECT_EQ(groups_after(parse(separable(1)), 64 << 10), 1u);
  EXPECT_EQ(groups_after(parse(separable(2)), 64 << 10), 2u);
  EXPECT_EQ(groups_after(parse(separable(1, 4)), 64 << 10), 2u) << "every block would read the weights of all groups";
}

// x -> 1 x 1 -> clip -> convolution of groups: neighbouring rows share what they read.
TEST(FuseChains, WindowsOverAProductStayApart) {
  const std::string text = R"text(graph g {
  input x : f32[1, 16, 24, 24] layout "reorder(0, 2, 3, 1)"
  input u : f32[32, 16, 1, 1]
  input w : f32[32, 16, 3, 3]
  e : f32[1, 32, 24, 24] layout "reorder(0, 2, 3, 1)" = conv(x, u) as e
  c : f32[1, 32, 24, 24] layout "reorder(0, 2, 3, 1)" = clip(e) {min = 0.0, max = 6.0} as c
  y : f32[1, 32, 24, 24] layout "reorder(0, 2, 3, 1)" = conv(c, w) {group = 2, pads = [1, 1, 1, 1]} as y
  output y
})text";
  EXPECT_EQ(groups_after(parse(text), 64 << 10), 2u);
}

// 64 rows of 64 scores are 16 KB, passed on twice: more than the first cache keeps of a block. Blocks of all rows pass
// it on as fast as groups do, through L2; blocks of half as many rows pay.
TEST(FuseChains, BlocksAreAsHighAsIsCheapest) {
  const Graph before = parse(R"(graph g {
  input q : f32[1, 12, 64, 64]
  input k : f32[1, 12, 64, 64]
  input v : f32[1, 12, 64, 64]
  s : f32[1, 12, 64, 64] = matmul(q, k) as s
  p : f32[1, 12, 64, 64] = softmax(s) {axis = 3} as p
  y : f32[1, 12, 64, 64] = matmul(p, v) as y
  output y
})");
  TransformContext context = machine(1 << 20);
  ReasonLog log;
  context.log = &log;
  context.target.barrier_ns = 0;
  context.target.levels[0].read_per_ns = 400;
  const Graph fused = run_pass(before, "fuse");
  EXPECT_EQ(find_pass("fuse-chains").run(fused, context).nodes.size(), 1u);
  const graph::Node& last = before.nodes.back();
  const Why* why = log.find(EdgeFate::kFused, before, last.inputs[0], last);
  ASSERT_NE(why, nullptr);
  std::map<std::string, double> numbers(why->numbers.begin(), why->numbers.end());
  EXPECT_EQ(numbers["block_rows"], 32) << why->text;
  EXPECT_LT(numbers["together_ns"], numbers["apart_ns"]);
}

// A depthwise convolution of volumes before its projection: the axis that is cut is one of three.
TEST(FuseChains, BlocksOfVolumesEndWithTheirAxis) {
  const std::string text = R"text(graph g {
  input x : f32[1, 32, 4, 6, 6] layout "reorder(0, 2, 3, 4, 1)"
  input w : f32[32, 1, 3, 3, 3]
  input u : f32[16, 32, 1, 1, 1]
  d : f32[1, 32, 4, 6, 6] layout "reorder(0, 2, 3, 4, 1)" = conv(x, w) {group = 32, pads = [1, 1, 1, 1, 1, 1]} as d
  y : f32[1, 16, 4, 6, 6] layout "reorder(0, 2, 3, 4, 1)" = conv(d, u) as y
  output y
})text";
  EXPECT_EQ(groups_after(parse(text), 512 << 10), 1u);
}

}  // namespace
}  // namespace tw::transform
