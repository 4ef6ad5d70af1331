#include "transform/train/differentiate.h"

#include <gtest/gtest.h>

#include "support/error.h"
#include "tests/harness/graph_evaluate.h"
#include "tests/transform/train/gradient_check.h"

namespace tw::testing {
namespace {

using graph::Graph;
using graph::RefTensor;
using graph::ValueId;
using transform::differentiate;

std::string message_of(Graph g, ValueId loss, std::vector<ValueId> wanted) {
  try {
    differentiate(g, operators(), loss, wanted);
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

ValueId sum_of_all(Graph& g, ValueId x) { return add_node(g, "reduce_sum", {x}, {{"keepdims", int64_t{0}}}); }

std::vector<double> elements(const Graph& g, ValueId id, const std::vector<RefTensor>& inputs) {
  return graph::evaluate(g, operators(), inputs, graph::Rounding::kNone).at(id).floats;
}

RefTensor floats(Shape shape, std::vector<double> values) { return {f64(std::move(shape)), std::move(values), {}}; }

// Every path adds its part: x is read by two nodes, and twice by one of them.
TEST(Differentiate, PathsAreAdded) {
  Graph g;
  const ValueId x = g.add_input("x", f64({3}));
  const ValueId y = add_node(g, "add", {add_node(g, "mul", {x, x}), add_node(g, "neg", {x})});
  const ValueId loss = sum_of_all(g, y);
  const std::vector<ValueId> dx = differentiate(g, operators(), loss, std::vector{x});
  EXPECT_EQ(elements(g, dx[0], {floats({3}, {1, -2, 0.5})}), (std::vector<double>{1, -5, 0}));
}

TEST(Differentiate, ValuesWithin) {
  Graph g;
  const ValueId x = g.add_input("x", f64({2}));
  const ValueId h = add_node(g, "exp", {x});
  const ValueId loss = sum_of_all(g, add_node(g, "mul", {h, h}));
  const size_t before = g.nodes.size();
  const std::vector<ValueId> both = differentiate(g, operators(), loss, std::vector{h, x, h});
  EXPECT_EQ(both[0], both[2]);
  EXPECT_EQ(elements(g, both[0], {floats({2}, {0, 0})}), (std::vector<double>{2, 2}));
  EXPECT_EQ(elements(g, both[1], {floats({2}, {0, 0})}), (std::vector<double>{2, 2}));
  Graph inner = g;
  inner.nodes.resize(before);
  differentiate(inner, operators(), loss, std::vector{h});
  for (size_t n = before; n < inner.nodes.size(); ++n) EXPECT_NE(inner.nodes[n].name, "exp.grad");
}

// Parameters are constants of an imported model.
TEST(Differentiate, Constants) {
  Graph g;
  const ValueId x = g.add_input("x", f64({1, 2}));
  const ValueId w = add_constant(g, floats({2, 1}, {3, 4}));
  const ValueId loss = sum_of_all(g, add_node(g, "matmul", {x, w}));
  const std::vector<ValueId> dw = differentiate(g, operators(), loss, std::vector{w});
  EXPECT_EQ(elements(g, dw[0], {floats({1, 2}, {5, 7})}), (std::vector<double>{5, 7}));
}

TEST(Differentiate, TheLossItself) {
  Graph g;
  const ValueId x = g.add_input("x", f64({1, 1}));
  const std::vector<ValueId> dx = differentiate(g, operators(), x, std::vector{x});
  EXPECT_EQ(elements(g, dx[0], {floats({1, 1}, {5})}), (std::vector<double>{1}));
}

// What the loss does not depend on, or only through what has no gradient, gets zeros of its shape.
TEST(Differentiate, ZerosWhereNothingLeads) {
  Graph g;
  const ValueId x = g.add_input("x", f64({2}));
  const ValueId apart = g.add_input("apart", f64({2, 3}));
  const ValueId through_floor = g.add_input("floored", f64({2}));
  const ValueId compared = g.add_input("compared", f64({2}));
  const ValueId mask = add_node(g, "less", {compared, x});
  const ValueId y = add_node(g, "add", {x, add_node(g, "floor", {through_floor})});
  const ValueId loss = sum_of_all(g, add_node(g, "where", {mask, y, add_node(g, "neg", {y})}));
  const std::vector<ValueId> all = differentiate(g, operators(), loss, std::vector{x, apart, through_floor, compared});
  const std::vector<RefTensor> inputs = {floats({2}, {1, 2}), floats({2, 3}, std::vector<double>(6, 1)),
                                         floats({2}, {0.5, 0.5}), floats({2}, {0, 3})};
  EXPECT_EQ(elements(g, all[0], inputs), (std::vector<double>{1, -1}));
  for (size_t k = 1; k < all.size(); ++k) {
    EXPECT_EQ(g.value(all[k]).type, inputs[k].type);
    for (const double d : elements(g, all[k], inputs)) EXPECT_EQ(d, 0);
  }
}

TEST(Differentiate, RefusesNamingAll) {
  Graph g;
  const ValueId x = g.add_input("x", f64({2, 3}));
  const ValueId first = add_node(g, "bitcast", {x}, {{"to", std::string("f64")}});
  const ValueId second = add_node(g, "bitcast", {add_node(g, "exp", {first})}, {{"to", std::string("f64")}});
  g.nodes.front().name = "first";
  const ValueId loss = sum_of_all(g, second);
  const ValueId beside = add_node(g, "bitcast", {x}, {{"to", std::string("f64")}});
  g.nodes.back().name = "beside";
  g.outputs = {beside};
  const std::string message = message_of(g, loss, {x});
  EXPECT_NE(message.find("node 'first' (bitcast): bits have no gradient"), std::string::npos) << message;
  EXPECT_NE(message.find("node 'bitcast' (bitcast)"), std::string::npos) << message;
  EXPECT_EQ(message.find("beside"), std::string::npos) << message;
  EXPECT_THROW(differentiate(g, operators(), loss, std::vector{x}), Unsupported);
}

// Bits are refused where they become a number again; an integer that a cast makes has no gradient to pass.
TEST(Differentiate, WordsAreNoWayAround) {
  Graph g;
  const ValueId x = g.add_input("x", f64({2}));
  const ValueId bits = add_node(g, "bitcast", {x}, {{"to", std::string("i64")}});
  const ValueId back = add_node(g, "bitcast", {add_node(g, "identity", {bits})}, {{"to", std::string("f64")}});
  EXPECT_THROW(differentiate(g, operators(), sum_of_all(g, back), std::vector{x}), Unsupported);
  const ValueId whole = add_node(g, "cast", {x}, {{"to", std::string("i64")}});
  const ValueId number = add_node(g, "cast", {add_node(g, "neg", {whole})}, {{"to", std::string("f64")}});
  const std::vector<ValueId> dx = differentiate(g, operators(), sum_of_all(g, number), std::vector{x});
  EXPECT_EQ(elements(g, dx[0], {floats({2}, {1, 2})}), (std::vector<double>{0, 0}));
}

TEST(Differentiate, RefusesTypes) {
  Graph g;
  const ValueId x = g.add_input("x", f64({2}));
  const ValueId i = g.add_input("i", i64({}));
  const ValueId loss = sum_of_all(g, x);
  EXPECT_NE(message_of(g, x, {x}).find("the loss 'x' is f64[2], expected one float"), std::string::npos);
  EXPECT_NE(message_of(g, loss, {i}).find("'i' is wanted, which is i64[]"), std::string::npos);
  EXPECT_THROW(differentiate(g, operators(), i, std::vector{x}), UserError);
}

// Chains as long as unrolled loops make them.
TEST(Differentiate, LongChains) {
  Graph g;
  const ValueId x = g.add_input("x", f64({2}));
  ValueId y = x;
  graph::NameSet names(g);
  for (int k = 0; k < 3000; ++k)
    y = graph::append_node(g, operators(), {.op = "neg", .name = "", .inputs = {y}}, &names)[0];
  const std::vector<ValueId> dx = differentiate(g, operators(), sum_of_all(g, y), std::vector{x});
  EXPECT_EQ(elements(g, dx[0], {floats({2}, {1, 2})}), (std::vector<double>{1, 1}));
}

// ---- Choices at bends and ties, as the rules' files state them.

std::vector<double> gradient_at(const std::string& op, const RefTensor& x, graph::Attrs attrs = {}) {
  Graph g;
  const ValueId in = g.add_input("x", x.type);
  const ValueId loss = sum_of_all(g, add_node(g, op, {in}, std::move(attrs)));
  return elements(g, differentiate(g, operators(), loss, std::vector{in})[0], {x});
}

TEST(GradientChoices, BendsAndTies) {
  using Doubles = std::vector<double>;
  const RefTensor x = floats({1, 1, 4}, {0, 2, 2, -1});
  EXPECT_EQ(gradient_at("relu", x), (Doubles{0, 1, 1, 0}));
  EXPECT_EQ(gradient_at("abs", x), (Doubles{0, 1, 1, -1}));
  EXPECT_EQ(gradient_at("clip", x, {{"min", 0.0}, {"max", 2.0}}), (Doubles{0, 0, 0, 0}));
  EXPECT_EQ(gradient_at("clip", x, {{"min", -1.1}, {"max", 2.0}}), (Doubles{1, 0, 0, 1}));
  EXPECT_EQ(gradient_at("clip", x, {{"min", -0.5}}), (Doubles{1, 1, 1, 0}));
  EXPECT_EQ(gradient_at("leaky_relu", x, {{"alpha", 0.25}}), (Doubles{0.25, 1, 1, 0.25}));
  EXPECT_EQ(gradient_at("elu", floats({1}, {0}), {{"alpha", 0.5}}), Doubles{0.5});
  EXPECT_EQ(gradient_at("celu", floats({1}, {0}), {{"alpha", 0.5}}), Doubles{1});
  EXPECT_EQ(gradient_at("selu", floats({1}, {0}), {{"alpha", 0.5}, {"gamma", 3.0}}), Doubles{1.5});
  EXPECT_EQ(gradient_at("reduce_max", x, {{"axes", std::vector<int64_t>{2}}}), (Doubles{0, 0.5, 0.5, 0}));
  EXPECT_EQ(gradient_at("max_pool", x, {{"kernel_shape", std::vector<int64_t>{4}}}), (Doubles{0, 1, 0, 0}));
  EXPECT_EQ(gradient_at("global_max_pool", x), (Doubles{0, 1, 0, 0}));
  EXPECT_EQ(gradient_at("reduce_prod", x), (Doubles{-4, 0, 0, 0}));
  EXPECT_EQ(gradient_at("reduce_prod", floats({3}, {0, 0, 2})), (Doubles{0, 0, 0}));
  EXPECT_EQ(gradient_at("reduce_l2", floats({2}, {0, 0})), (Doubles{0, 0}));
  EXPECT_EQ(gradient_at("lp_norm", floats({2}, {0, 0})), (Doubles{0, 0}));
}

TEST(GradientChoices, ExtremesShareTies) {
  Graph g;
  const ValueId a = g.add_input("a", f64({3})), b = g.add_input("b", f64({3}));
  const ValueId loss = sum_of_all(g, add_node(g, "max", {a, b}));
  const std::vector<ValueId> both = differentiate(g, operators(), loss, std::vector{a, b});
  const std::vector<RefTensor> inputs = {floats({3}, {1, 2, 3}), floats({3}, {1, 3, 2})};
  EXPECT_EQ(elements(g, both[0], inputs), (std::vector<double>{0.5, 0, 1}));
  EXPECT_EQ(elements(g, both[1], inputs), (std::vector<double>{0.5, 1, 0}));
}

TEST(GradientChoices, PReluAtZero) {
  Graph g;
  const ValueId x = g.add_input("x", f64({3})), slope = g.add_input("slope", f64({1}));
  const ValueId loss = sum_of_all(g, add_node(g, "prelu", {x, slope}));
  const std::vector<ValueId> both = differentiate(g, operators(), loss, std::vector{x, slope});
  const std::vector<RefTensor> inputs = {floats({3}, {0, 2, -3}), floats({1}, {0.25})};
  EXPECT_EQ(elements(g, both[0], inputs), (std::vector<double>{0.25, 1, 0.25}));
  EXPECT_EQ(elements(g, both[1], inputs), std::vector<double>{-3});
}

TEST(GradientChoices, PowersOfZero) {
  Graph g;
  const ValueId a = g.add_input("a", f64({3})), b = g.add_input("b", f64({3}));
  const ValueId loss = sum_of_all(g, add_node(g, "pow", {a, b}));
  const std::vector<ValueId> both = differentiate(g, operators(), loss, std::vector{a, b});
  const std::vector<RefTensor> inputs = {floats({3}, {0, 0, -2}), floats({3}, {0, 2, 3})};
  EXPECT_EQ(elements(g, both[0], inputs), (std::vector<double>{0, 0, 12}));
  EXPECT_EQ(elements(g, both[1], {inputs[0], floats({3}, {0, 2, 3})})[0], 0);
  EXPECT_EQ(elements(g, both[1], inputs)[1], 0);
}

}  // namespace
}  // namespace tw::testing
