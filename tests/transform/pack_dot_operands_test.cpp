// 8-bit contractions as products of words, against the reference of the contraction: exact on all bytes.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/transform/graph_tools.h"

namespace tw::transform {
namespace {

using graph::Graph;
using graph::Node;
using graph::RefTensor;
using graph::ValueId;
using Ints = std::vector<int64_t>;
using testing::count_nodes;

constexpr DataType kU8 = ScalarType::kU8, kI8 = ScalarType::kI8;

enum class Zero : uint8_t {
  kAbsent,
  kNone,
  kKnown,
  kRunTime,
  kEach
};  // kNone: a constant 0, kEach: one a row or column

struct Case {
  std::string op;
  Shape a, b;
  DataType a_type = kU8, b_type = kI8;
  Zero a_zero = Zero::kAbsent, b_zero = Zero::kAbsent;
  graph::Attrs attrs = {};
};

TransformContext context_with(const std::vector<std::string>& features) {
  TransformContext context = testing::context();
  for (const std::string& feature : features) context.target.features.push_back(feature);
  return context;
}

RefTensor bytes(DataType type, const Shape& shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  RefTensor t = RefTensor::zeros({type, shape});
  for (int64_t& x : t.ints) x = static_cast<int64_t>(random() % 256) - (type.is_signed_int() ? 128 : 0);
  return t;
}

ValueId add_constant(Graph& g, const std::string& name, const RefTensor& t) {
  return g.add_constant(name, t.type, share(t.to_bytes()));
}

ValueId add_zero(Graph& g, Zero kind, const std::string& name, DataType type, int64_t each) {
  if (kind == Zero::kAbsent) return graph::kAbsent;
  if (kind == Zero::kRunTime) return g.add_input(name, {type, {}});
  RefTensor zero = bytes(type, kind == Zero::kEach ? Shape{each} : Shape{}, 77);
  if (kind == Zero::kNone) zero.ints = {0};
  if (kind == Zero::kKnown) zero.ints = {11};
  return add_constant(g, name, zero);
}

Graph graph_of(const Case& c) {
  Graph g;
  g.name = "g";
  const bool conv = c.op == "conv_integer";
  std::vector<ValueId> inputs{g.add_input("a", {c.a_type, c.a}), add_constant(g, "b", bytes(c.b_type, c.b, 5))};
  inputs.push_back(add_zero(g, c.a_zero, "a0", c.a_type, c.a.size() < 2 ? 1 : c.a[c.a.size() - 2]));
  inputs.push_back(add_zero(g, c.b_zero, "b0", c.b_type, conv ? c.b[0] : c.b.back()));
  while (inputs.back() == graph::kAbsent) inputs.pop_back();
  const Node node{.op = c.op, .name = "y", .attrs = c.attrs, .inputs = inputs, .outputs = {}, .body = nullptr};
  g.outputs = graph::append_node(g, testing::context().ops, node);
  return g;
}

// The graph after the pass; it computes the same integers.
Graph checked(const Case& c, const std::vector<std::string>& features) {
  SCOPED_TRACE(fmt::format("{} {} {} {} {} zeros {} {} on [{}]", c.op, fmt::join(c.a, "x"), fmt::join(c.b, "x"),
                           to_string(c.a_type), to_string(c.b_type), static_cast<int>(c.a_zero),
                           static_cast<int>(c.b_zero), fmt::join(features, " ")));
  const TransformContext context = context_with(features);
  const Graph before = graph_of(c);
  const Graph after = find_pass("pack-dot-operands").run(before, context);
  graph::verify(after, context.ops);
  std::vector<RefTensor> inputs;
  for (const ValueId in : before.inputs) {
    const TensorType& type = before.value(in).type;
    inputs.push_back(bytes(type.type, type.shape, inputs.size() + 1));
  }
  EXPECT_EQ(testing::outputs_of(after, inputs)[0].ints, testing::outputs_of(before, inputs)[0].ints);
  return after;
}

std::string words_of(const Graph& g) {
  for (const Node& node : g.nodes) {
    if (node.op == "matmul_words" || node.op == "conv_words") return node.string_attr("words");
  }
  return "";
}

// The case with every combination of types and these zero points.
std::vector<Case> kinds_of(const Case& c, const std::vector<Zero>& a_zeros, const std::vector<Zero>& b_zeros) {
  std::vector<Case> cases;
  for (const Zero a_zero : a_zeros) {
    for (const Zero b_zero : b_zeros) {
      for (const int types : {0, 1, 2, 3})
        cases.push_back(
            {c.op, c.a, c.b, (types & 1) != 0 ? kU8 : kI8, (types & 2) != 0 ? kU8 : kI8, a_zero, b_zero, c.attrs});
    }
  }
  return cases;
}

TEST(PackDotOperands, MatricesOfEveryKind) {
  const std::pair<Shape, Shape> shapes[] = {
      {{3, 8}, {8, 5}}, {{3, 7}, {7, 5}}, {{2, 3, 5}, {5, 4}}, {{3, 6}, {2, 6, 4}}, {{2, 1, 3, 9}, {4, 9, 2}}};
  const std::vector<Zero> a_zeros{Zero::kAbsent, Zero::kNone, Zero::kKnown, Zero::kRunTime, Zero::kEach};
  const std::vector<Zero> b_zeros{Zero::kAbsent, Zero::kKnown, Zero::kEach};
  for (const auto& [a, b] : shapes) {
    for (const Case& c : kinds_of({"matmul_integer", a, b}, a_zeros, b_zeros)) {
      EXPECT_EQ(words_of(checked(c, {})), "pairs");
      EXPECT_EQ(words_of(checked(c, {"avx512vnni"})), "quads");
    }
  }
}

TEST(PackDotOperands, Vectors) {
  for (const auto& [a, b] : {std::pair<Shape, Shape>{{6}, {6, 5}}, {{3, 6}, {6}}, {{2, 3, 6}, {6}}, {{6}, {2, 6, 3}}}) {
    for (const Zero a_zero : {Zero::kAbsent, Zero::kRunTime, Zero::kEach}) {
      for (const Zero b_zero : {Zero::kAbsent, Zero::kKnown, Zero::kEach}) {
        if ((a.size() == 1 && a_zero == Zero::kEach) || (b.size() == 1 && b_zero == Zero::kEach)) continue;
        EXPECT_EQ(words_of(checked({"matmul_integer", a, b, kI8, kU8, a_zero, b_zero}, {"avxvnni"})), "quads");
      }
    }
  }
}

TEST(PackDotOperands, OfTwoNumbersAreAPairEverywhere) {
  EXPECT_EQ(words_of(checked({"matmul_integer", {3, 2}, {2, 5}}, {"avx512vnni"})), "pairs");
}

TEST(PackDotOperands, OnlyQuadsOfWeightsWithAZeroPointNeedSumsOfActivations) {
  const auto sums = [](DataType weights, Zero zero) {
    const Case c{"matmul_integer", {3, 8}, {8, 5}, kU8, weights, Zero::kKnown, zero};
    return count_nodes(checked(c, {"avx512vnni"}), "sum_words");
  };
  EXPECT_EQ(sums(kI8, Zero::kNone), 0);
  EXPECT_EQ(sums(kI8, Zero::kKnown), 1);
  EXPECT_EQ(sums(kU8, Zero::kNone), 1) << "128 of a signed byte";
}

void check_convolutions(int64_t channels, const graph::Attrs& attrs) {
  const Case shapes{"conv_integer", {2, channels, 5, 6}, {3, channels, 3, 2}, kU8, kI8, {}, {}, attrs};
  const std::vector<Zero> zeros{Zero::kAbsent, Zero::kNone, Zero::kKnown, Zero::kRunTime};
  for (const Case& c : kinds_of(shapes, zeros, {Zero::kNone})) {
    EXPECT_EQ(words_of(checked(c, {})), "pairs");
    const bool unknown = c.b_type == kU8 || (c.a_zero == Zero::kRunTime && !attrs.empty());
    EXPECT_EQ(words_of(checked(c, {"avx512vnni"})), unknown ? "pairs" : "quads");
  }
}

TEST(PackDotOperands, Convolutions) {
  for (const int64_t channels : {3, 4, 7, 8}) {
    check_convolutions(channels, {});
    check_convolutions(channels, {{"pads", Ints{1, 0, 1, 2}}, {"strides", Ints{2, 1}}});
  }
}

TEST(PackDotOperands, ConvolutionsWithZeroPointsOfEachChannel) {
  const Case c{
      "conv_integer", {1, 5, 6, 6}, {4, 5, 3, 3}, kU8, kI8, Zero::kKnown, Zero::kEach, {{"pads", Ints{1, 1, 1, 1}}}};
  EXPECT_EQ(words_of(checked(c, {"avx512vnni"})), "pairs");
}

TEST(PackDotOperands, WordsDoNotCrossGroups) {
  const auto words = [](int64_t each) {
    return words_of(checked({"conv_integer",
                             {1, 2 * each, 5, 6},
                             {4, each, 3, 3},
                             kU8,
                             kI8,
                             Zero::kKnown,
                             Zero::kNone,
                             {{"group", int64_t{2}}}},
                            {"avx512vnni"}));
  };
  EXPECT_EQ(words(4), "quads");
  EXPECT_EQ(words(6), "pairs");
  EXPECT_EQ(words(3), "");
  EXPECT_EQ(words(1), "");
}

// ---- Floats.

Graph float_graph(const std::string& op, DataType type, const Shape& x, const Shape& w, bool bias) {
  const auto numbers = [&](const Shape& shape) {
    RefTensor t = RefTensor::zeros({type, shape});
    for (size_t i = 0; i < t.floats.size(); ++i) t.floats[i] = static_cast<double>(i * 7 % 19) / 8 - 1;
    return t;
  };
  Graph g;
  g.name = "g";
  std::vector<ValueId> inputs{g.add_input("x", {type, x}), add_constant(g, "w", numbers(w))};
  if (bias) inputs.push_back(add_constant(g, "bias", numbers({w[0]})));
  const Node node{.op = op, .name = "y", .attrs = {}, .inputs = inputs, .outputs = {}, .body = nullptr};
  g.outputs = graph::append_node(g, testing::context().ops, node);
  return g;
}

std::string float_words(const Graph& before, const std::vector<std::string>& features, Precision precision) {
  TransformContext context = context_with(features);
  context.precision = precision;
  const Graph after = find_pass("pack-dot-operands").run(before, context);
  graph::verify(after, context.ops);
  // Every operand is a number of bf16; results are rounded to it where the model has that type.
  const bool rounds = before.value(before.outputs[0]).type.type == DataType::bf16();
  testing::expect_same_function(before, after, rounds ? 0x1p-8 : 1e-12);
  return words_of(after);
}

TEST(PackDotOperands, Bf16WhereTheTargetSumsItsProducts) {
  const Graph graphs[] = {float_graph("matmul", DataType::bf16(), {3, 7}, {7, 5}, false),
                          float_graph("matmul", DataType::bf16(), {2, 3, 8}, {8, 5}, false),
                          float_graph("conv", DataType::bf16(), {2, 5, 6, 6}, {4, 5, 3, 3}, true)};
  for (const Graph& g : graphs) {
    EXPECT_EQ(float_words(g, {"avx512bf16"}, Precision::kDefault), "bf16");
    EXPECT_EQ(float_words(g, {"avx512bf16"}, Precision::kFast), "bf16");
    EXPECT_EQ(float_words(g, {"avx512bf16"}, Precision::kStrict), "") << "vdpbf16ps takes subnormals for 0";
    EXPECT_EQ(float_words(g, {"avx512vnni"}, Precision::kDefault), "");
  }
}

TEST(PackDotOperands, F32IsRoundedWhereThatIsAskedForAndPays) {
  const Graph g = float_graph("matmul", DataType::f32(), {64, 128}, {128, 768}, false);
  EXPECT_EQ(float_words(g, {"avx512bf16"}, Precision::kFast), "bf16");
  EXPECT_EQ(float_words(g, {"avx512bf16"}, Precision::kDefault), "");
  EXPECT_EQ(float_words(g, {}, Precision::kFast), "");
  // Packing costs more than one column of products.
  const Graph column = float_graph("matmul", DataType::f32(), {512, 512}, {512, 1}, false);
  EXPECT_EQ(float_words(column, {"avx512bf16"}, Precision::kFast), "");
}

}  // namespace
}  // namespace tw::transform
