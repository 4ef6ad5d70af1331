// Constant masks that are bands of a matrix are computed: what comes out is the same, of NaN and infinities, too.
#include <gtest/gtest.h>

#include <limits>

#include "graph/ref_tensor.h"
#include "tests/transform/graph_tools.h"

namespace tw::transform {
namespace {

using graph::Graph;
using graph::RefTensor;
using graph::ValueId;

Graph computed(const Graph& before) {
  TransformContext context = testing::context();
  context.target.kind = DeviceKind::kCuda;
  Graph after = find_pass("compute-masks").run(before, context);
  graph::verify(after, context.ops);
  return after;
}

struct Select {
  Shape mask, x;
  bool mask_first = true;  // x where the mask is true
  double fill = -1e30;
};

template <typename Mask>
Graph graph_of(const Select& s, const Mask& is_set) {
  Graph g;
  const ValueId x = g.add_input("x", {DataType::f32(), s.x});
  RefTensor mask = RefTensor::zeros({DataType::boolean(), s.mask});
  const int64_t columns = s.mask.back(), rows = s.mask[s.mask.size() - 2];
  for (int64_t e = 0; e < std::ssize(mask.ints); ++e) mask.ints[e] = is_set(e / columns % rows, e % columns) ? 1 : 0;
  RefTensor fill = RefTensor::zeros({DataType::f32(), {}});
  fill.floats[0] = s.fill;
  const ValueId m = g.add_constant("m", mask.type, share(mask.to_bytes()));
  const ValueId low = g.add_constant("low", fill.type, share(fill.to_bytes()));
  const std::vector<ValueId> inputs = s.mask_first ? std::vector{m, x, low} : std::vector{m, low, x};
  g.outputs =
      graph::append_node(g, testing::context().ops,
                         {.op = "where", .name = "y", .attrs = {}, .inputs = inputs, .outputs = {}, .body = {}});
  return g;
}

// Its band, as "lower upper"; "" where the select is left alone.
template <typename Mask>
std::string band_of(const Select& s, const Mask& is_set) {
  const Graph before = graph_of(s, is_set), after = computed(before);
  testing::expect_same_function(before, after, 0);
  testing::expect_same_special_values(before, after, 0);
  const graph::Node& node = after.nodes.at(0);
  if (node.op != "band") return "";
  const auto text = [&](const char* key) {
    return node.attrs.contains(key) ? std::to_string(node.int_attr_or(key, 0)) : std::string("none");
  };
  return text("lower") + " " + text("upper");
}

TEST(ComputeMasks, Bands) {
  const auto causal = [](int64_t i, int64_t j) { return j <= i; };
  EXPECT_EQ(band_of({{5, 5}, {2, 3, 5, 5}}, causal), "none 0");
  EXPECT_EQ(band_of({{1, 1, 4, 7}, {2, 4, 7}}, causal), "") << "more axes than x";
  EXPECT_EQ(band_of({{1, 4, 7}, {2, 4, 7}}, causal), "none 0");
  EXPECT_EQ(band_of({{4, 7}, {4, 7}}, [](int64_t i, int64_t j) { return j <= i + 3; }), "none 3") << "keys before";
  EXPECT_EQ(band_of({{6, 6}, {6, 6}}, [](int64_t i, int64_t j) { return j <= i && j + 2 > i; }), "-1 0") << "a window";
  EXPECT_EQ(band_of({{5, 5}, {5, 5}, false}, [](int64_t i, int64_t j) { return j > i; }), "none 0") << "what is hidden";
  EXPECT_EQ(band_of({{3, 3}, {3, 3}, true, std::numeric_limits<double>::quiet_NaN()}, causal), "none 0");
}

TEST(ComputeMasks, NoBands) {
  EXPECT_EQ(band_of({{5, 5}, {5, 5}}, [](int64_t, int64_t j) { return j < 3; }), "") << "padding";
  EXPECT_EQ(band_of({{5, 5}, {5, 5}}, [](int64_t i, int64_t j) { return i != j; }), "") << "all but a band";
  EXPECT_EQ(band_of({{5, 5}, {5, 5}}, [](int64_t i, int64_t j) { return j <= i && !(i == 3 && j == 0); }), "");
  EXPECT_EQ(band_of({{5, 5}, {5, 5}}, [](int64_t, int64_t) { return true; }), "");
  EXPECT_EQ(band_of({{1, 5}, {4, 5}}, [](int64_t i, int64_t j) { return j <= i; }), "") << "one row for all";
}

// Sums with a mask of zeros and numbers that leave nothing of what they are added to.
TEST(ComputeMasks, MasksThatAreAdded) {
  const auto op_of = [](double low, double other) {
    Graph g;
    const ValueId x = g.add_input("x", {DataType::f32(), {2, 4, 4}});
    RefTensor mask = RefTensor::zeros({DataType::f32(), {4, 4}});
    for (int64_t e = 0; e < 16; ++e) mask.floats[e] = e % 4 > e / 4 ? low : 0;
    mask.floats[0] = other;
    g.outputs = graph::append_node(g, testing::context().ops,
                                   {.op = "add",
                                    .name = "y",
                                    .attrs = {},
                                    .inputs = {g.add_constant("m", mask.type, share(mask.to_bytes())), x},
                                    .outputs = {},
                                    .body = {}});
    const Graph after = computed(g);
    testing::expect_same_function(g, after, 1e-30);
    return after.nodes.at(0).op;
  };
  EXPECT_EQ(op_of(-std::numeric_limits<double>::infinity(), 0), "band");
  EXPECT_EQ(op_of(-3.4028234663852886e38, 0), "band");
  EXPECT_EQ(op_of(-10000, 0), "add") << "some of what it is added to is left";
  EXPECT_EQ(op_of(-3e38, 0.5), "add") << "a bias";
}

// The same as a select between two numbers.
TEST(ComputeMasks, MasksThatAreSelectedAndAdded) {
  const auto op_of = [](const std::string& sides) {
    const Graph before = testing::parse(R"(graph g {
  input x : f32[2, 3, 3]
  const c : bool[3, 3] = [1, 0, 0, 1, 1, 0, 1, 1, 1]
  const zero : f32[] = [0.0]
  const low : f32[] = [-1e38]
  const bias : f32[] = [-1.0]
  m : f32[3, 3] = where(c, )" + sides + R"()
  y : f32[2, 3, 3] = add(x, m)
  output y
})");
    const Graph after = computed(before);
    testing::expect_same_function(before, after, 1e-30);
    return after.nodes.back().op;
  };
  EXPECT_EQ(op_of("zero, low"), "band");
  EXPECT_EQ(op_of("low, zero"), "band") << "keys behind";
  EXPECT_EQ(op_of("zero, bias"), "add");
  EXPECT_EQ(op_of("bias, low"), "add");
}

// Masks that are too large to be constants: what they are follows from what computes them.
std::string added_band(const std::string& mask, const std::string& type = "f32") {
  const Graph before = testing::parse(R"(graph g {
  input x : )" + type + R"([2, 3, 4]
  input one_row : f32[1, 4]
  const zero : f32[] = [0.0]
  const one : f32[] = [1.0]
  const low : f32[] = [-inf]
  const high : f32[] = [1e38]
  const columns : i64[4] = [0, 1, 2, 3]
  const rows : i64[3, 1] = [1, 2, 3]
  const odd : i64[3, 1] = [1, 3, 5]
)" + mask + R"(
  y : )" + type + R"([2, 3, 4] = add(x, m)
  output y
})");
  const Graph after = computed(before);
  testing::expect_same_function(before, after, 1e-30);
  const graph::Node& node = after.nodes.back();
  if (node.op != "band") return "";
  const auto text = [&](const char* key) {
    return node.attrs.contains(key) ? std::to_string(node.int_attr_or(key, 0)) : std::string("none");
  };
  return text("lower") + " " + text("upper");
}

TEST(ComputeMasks, TrianglesOfMatrices) {
  const std::string ones = "  ones : f32[3, 4] = expand(one) {shape = [3, 4]}\n";
  EXPECT_EQ(added_band(ones + R"(
  triangle : f32[3, 4] = band(ones) {upper = 0}
  hidden : bool[3, 4] = equal(triangle, zero)
  m : f32[3, 4] = where(hidden, low, zero))"),
            "none 0");
  EXPECT_EQ(added_band(ones + R"(
  triangle : f32[3, 4] = band(ones) {lower = 1}
  m : f32[3, 4] = mul(triangle, low))"),
            "")
      << "0 times infinity is no number";
  EXPECT_EQ(added_band(ones + R"(
  triangle : f32[3, 4] = band(ones) {lower = 2}
  hidden : bool[3, 4] = cast(triangle) {to = "bool"}
  again : bool[1, 3, 4] = reshape(hidden) {shape = [1, 3, 4]}
  m : f32[1, 3, 4] = where(again, low, zero))"),
            "none 1");
  EXPECT_EQ(added_band(R"(
  wide : f32[3, 4] = expand(one_row) {shape = [3, 4]}
  triangle : f32[3, 4] = band(wide) {upper = 0}
  m : f32[3, 4] = sub(triangle, high))"),
            "")
      << "numbers that come at run time";
}

TEST(ComputeMasks, PositionsCompared) {
  const auto band = [](const std::string& condition) {
    return added_band("  c : bool[3, 4] = " + condition + "\n  m : f32[3, 4] = where(c, zero, low)");
  };
  EXPECT_EQ(band("less_equal(columns, rows)"), "none 1");
  EXPECT_EQ(band("less(columns, rows)"), "none 0");
  EXPECT_EQ(band("greater_equal(columns, rows)"), "1 none");
  EXPECT_EQ(band("greater(columns, rows)"), "2 none");
  EXPECT_EQ(band("less_equal(rows, columns)"), "1 none");
  EXPECT_EQ(band("greater(rows, columns)"), "none 0");
  EXPECT_EQ(band("less(columns, odd)"), "") << "every other row";
  EXPECT_EQ(added_band(R"(
  a : bool[3, 4] = less_equal(columns, rows)
  b : bool[3, 4] = greater_equal(columns, rows)
  c : bool[3, 4] = and(a, b)
  m : f32[3, 4] = where(c, zero, low))"),
            "1 1");
  EXPECT_EQ(added_band(R"(
  a : bool[3, 4] = less_equal(columns, rows)
  b : bool[3, 4] = not(a)
  m : f32[3, 4] = where(b, low, zero))"),
            "none 1");
  EXPECT_EQ(added_band(R"(
  a : bool[3, 4] = less_equal(columns, rows)
  b : bool[3, 4] = less(columns, rows)
  c : bool[3, 4] = xor(a, b)
  m : f32[3, 4] = where(c, zero, low))"),
            "")
      << "of two bands";
}

TEST(ComputeMasks, MasksOf16Bits) {
  EXPECT_EQ(added_band(R"(
  a : bool[3, 4] = less_equal(columns, rows)
  wide : f32[3, 4] = where(a, zero, low)
  m : f16[3, 4] = cast(wide) {to = "f16"})",
                       "f16"),
            "none 1");
}

}  // namespace
}  // namespace tw::transform
