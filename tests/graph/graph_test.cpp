#include "graph/graph.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sample.h"
#include "support/error.h"
#include "tests/harness/graph_evaluate.h"

namespace tw::graph::test {
namespace {

TEST(Graph, NamesAreUnique) {
  Graph g;
  EXPECT_EQ(g.value(g.add_value("a", f32({}))).name, "a");
  EXPECT_EQ(g.value(g.add_value("a", f32({}))).name, "a_1");
  EXPECT_EQ(g.value(g.add_value("a", f32({}))).name, "a_2");
  EXPECT_EQ(g.value(g.add_value("", f32({}))).name, "v");
  EXPECT_EQ(g.find_value("a_1"), 1);
  EXPECT_EQ(g.find_value("b"), kAbsent);
  EXPECT_THROW(g.add_constant("c", f32({3}), bytes_of(std::vector<float>(2))), InternalError);
}

TEST(Graph, Attributes) {
  Node node{
      .op = "op", .name = "n", .attrs = {{"i", int64_t{3}}, {"f", 0.5}}, .inputs = {}, .outputs = {}, .body = nullptr};
  EXPECT_EQ(node.int_attr("i"), 3);
  EXPECT_EQ(node.float_attr_or("f", 1), 0.5);
  EXPECT_EQ(node.float_attr_or("g", 1), 1);
  EXPECT_EQ(node.ints_attr_or("v", {4}), (std::vector<int64_t>{4}));
  EXPECT_THROW(node.int_attr("j"), InternalError);
  EXPECT_THROW(node.float_attr("i"), InternalError);
}

TEST(Graph, ProducersAndConsumers) {
  Graph g;
  const ValueId x = g.add_input("x", f32({3}));
  const ValueId y = add(g, "relu", {x});
  const ValueId z = add(g, "add", {y, y});
  g.outputs = {z};
  EXPECT_EQ(g.producer(x), -1);
  EXPECT_EQ(g.producer(z), 1);
  EXPECT_EQ(g.producers(), (std::vector<int>{-1, 0, 1}));
  EXPECT_EQ(g.consumers()[y], (std::vector<int>{1, 1}));
  EXPECT_TRUE(g.is_output(z));
  EXPECT_FALSE(g.is_output(y));
}

TEST(Compact, DropsAndReorders) {
  Graph g = mlp(2, 3, 5);
  add(g, "neg", {g.inputs[0]});                                         // not used
  g.add_constant("unused", f32({1}), bytes_of(std::vector<float>(1)));  // not used
  std::swap(g.nodes[0], g.nodes[2]);                                    // no longer in order
  EXPECT_THROW(verify(g, table()), InternalError);
  const Graph c = compact(g);
  verify(c, table());
  EXPECT_EQ(to_string(c), to_string(compact(mlp(2, 3, 5))));
  EXPECT_EQ(c.nodes.size(), 3u);
  EXPECT_EQ(c.values.size(), 6u);
  EXPECT_EQ(to_string(compact(c)), to_string(c));
}

TEST(Compact, KeepsInputsAndFindsCycles) {
  Graph g;
  const ValueId x = g.add_input("x", f32({3}));
  g.add_input("unused", f32({5}));
  const ValueId y = add(g, "relu", {x});
  const ValueId z = add(g, "relu", {y});
  g.outputs = {z};
  EXPECT_EQ(compact(g).inputs.size(), 2u);
  g.nodes[0].inputs = {z};
  EXPECT_THROW(compact(g), InternalError);
}

TEST(Compact, LongChains) {
  Graph g;
  ValueId x = g.add_input("x", f32({1}));
  for (int i = 0; i < 5000; ++i) {
    const auto next = static_cast<ValueId>(g.values.size());
    g.values.push_back({.name = fmt::format("n{}", i), .type = f32({1}), .layout = {}, .constant = nullptr});
    g.nodes.push_back({.op = "relu", .name = "n", .attrs = {}, .inputs = {x}, .outputs = {next}, .body = nullptr});
    x = next;
  }
  g.outputs = {x};
  std::reverse(g.nodes.begin(), g.nodes.end());
  verify(compact(g), table());
}

// Each breaks one rule of a correct graph; the message names the culprit.
void expect_rejected(const std::function<void(Graph&)>& break_it, const std::string& message) {
  Graph g = mlp(2, 3, 5);
  verify(g, table());
  break_it(g);
  try {
    verify(g, table());
    FAIL() << "accepted: " << message;
  } catch (const InternalError& e) {
    EXPECT_NE(std::string(e.what()).find(message), std::string::npos) << e.what();
  }
}

TEST(Verify, RejectsBrokenGraphs) {
  expect_rejected([](Graph& g) { g.values[1].name = "x"; }, "two values are named 'x'");
  expect_rejected([](Graph& g) { g.values[1].name = ""; }, "has no name");
  expect_rejected([](Graph& g) { g.nodes[0].inputs[0] = 99; }, "value 99");
  expect_rejected([](Graph& g) { g.nodes[0].inputs[0] = -2; }, "value -2");
  expect_rejected([](Graph& g) { std::swap(g.nodes[0], g.nodes[1]); }, "before it is computed");
  expect_rejected([](Graph& g) { g.nodes[1].outputs = g.nodes[0].outputs; }, "defined twice");
  expect_rejected([](Graph& g) { g.nodes[0].outputs[0] = g.nodes[0].inputs[1]; }, "defined twice");
  expect_rejected([](Graph& g) { g.nodes[0].op = "matmull"; }, "no operator 'matmull'");
  expect_rejected([](Graph& g) { g.values[g.nodes[2].outputs[0]].type.shape = {2, 4}; }, "f32[2,4]");
  expect_rejected([](Graph& g) { g.nodes[0].inputs.pop_back(); }, "1 inputs, expected 2");
  expect_rejected([](Graph& g) { g.values[g.nodes[0].inputs[1]].type.shape = {3, 4}; }, "60 bytes");
  expect_rejected([](Graph& g) { g.inputs.push_back(g.nodes[0].inputs[1]); }, "is a constant");
  expect_rejected([](Graph& g) { g.inputs.clear(); }, "before it is computed");
  expect_rejected([](Graph& g) { g.outputs.push_back(g.add_value("z", f32({1}))); }, "nothing computes the output 'z'");
  expect_rejected([](Graph& g) { g.nodes[2].outputs.clear(); }, "has no output");
  expect_rejected([](Graph& g) { g.values[0].layout = Layout().split(0, {3, 3}); }, "");
}

TEST(Verify, RejectsBrokenGroups) {
  const auto rejected = [](const std::function<void(Graph&, Graph&)>& break_it) {
    Graph g = grouped(2, 3, 5);
    verify(g, table());
    Graph body = *g.nodes[0].body;
    break_it(g, body);
    g.nodes[0].body = std::make_shared<const Graph>(body);
    EXPECT_THROW(verify(g, table()), InternalError);
  };
  rejected([](Graph&, Graph& body) { body.outputs.push_back(body.outputs[0]); });
  rejected([](Graph&, Graph& body) { body.outputs = {body.nodes[0].inputs[1]}; });
  rejected([](Graph&, Graph& body) { body.nodes.pop_back(); });
  rejected([](Graph& g, Graph&) { g.nodes[0].inputs.clear(); });
  rejected([](Graph& g, Graph&) { g.nodes[0].op = "relu"; });
}

TEST(Evaluate, GroupsAndRounding) {
  const Graph flat = mlp(3, 5, 4);
  const Graph group = grouped(3, 5, 4);
  const RefTensor x = counting({3, 5});
  const auto a = evaluate(flat, table(), {x}, Rounding::kNone)[flat.outputs[0]];
  const auto b = evaluate(group, table(), {x}, Rounding::kNone)[group.outputs[0]];
  ASSERT_EQ(a.floats.size(), 12u);
  for (size_t i = 0; i < a.floats.size(); ++i) EXPECT_EQ(a.floats[i], -b.floats[i]);

  Graph third;
  const ValueId one = third.add_input("x", f32({1}));
  third.outputs = {add(third, "reciprocal", {one})};
  const RefTensor three{f32({1}), {3}, {}};
  EXPECT_EQ(evaluate(third, table(), {three}, Rounding::kNone)[1].floats[0], 1.0 / 3);
  EXPECT_EQ(evaluate(third, table(), {three}, Rounding::kEachValue)[1].floats[0], 1.0f / 3);
  EXPECT_THROW(evaluate(third, table(), {}, Rounding::kNone), InternalError);
  EXPECT_THROW(evaluate(third, table(), {counting({2})}, Rounding::kNone), InternalError);
}

TEST(RefTensor, BytesRoundTrip) {
  for (const char* name : {"bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"}) {
    const TensorType type{*parse_data_type(name), {4}};
    RefTensor t = RefTensor::zeros(type);
    for (int i = 0; i < 4; ++i) {
      if (t.is_float()) t.floats[i] = i * 0.5 - 1;
      if (!t.is_float()) t.ints[i] = type.type.is_bool() ? i % 2 : type.type.is_signed_int() ? i - 2 : i;
    }
    const RefTensor again = RefTensor::from_bytes(type, t.to_bytes());
    EXPECT_EQ(again.floats, t.floats) << name;
    EXPECT_EQ(again.ints, t.ints) << name;
  }
  RefTensor wide = RefTensor::zeros({DataType(ScalarType::kI8), {2}});
  wide.ints = {300, -129};
  wide.round_to_type();
  EXPECT_EQ(wide.ints, (std::vector<int64_t>{44, 127}));
  RefTensor big = RefTensor::zeros({DataType(ScalarType::kU64), {1}});
  big.ints = {-1};
  EXPECT_EQ(big.at(0), 18446744073709551615.0);
}

TEST(ToTe, InputsConstantsAndOutputs) {
  Graph g = mlp(2, 3, 5);
  const GroupProgram group = to_te(g, table());
  EXPECT_EQ(group.inputs, (std::vector<ValueId>{0, 1, 2}));
  EXPECT_EQ(group.program.inputs[1].name, "x1");
  EXPECT_EQ(group.output_tensors, (std::vector<std::string>{"relu"}));
  EXPECT_EQ(group.program.computes.size(), 3u);

  // An output that is an input, a constant, or named twice is a compute of its own.
  g.outputs = {g.outputs[0], g.outputs[0], g.inputs[0], 1};
  const GroupProgram copies = to_te(g, table());
  EXPECT_EQ(copies.output_tensors, (std::vector<std::string>{"relu", "relu_copy", "x0_copy", "x1_copy"}));
  EXPECT_EQ(copies.program.outputs, copies.output_tensors);
  EXPECT_THROW(to_te(grouped(2, 3, 5), table()), InternalError);
}

TEST(GroupProgram, TextsHaveTheNodesForTensors) {
  const std::map<std::string, std::string> nodes = {{"conv_acc", "Conv_3 (conv)"}, {"conv", "Conv_3 (conv)"}};
  EXPECT_EQ(in_words_of_graph("no sum before conv_acc.rf: conv, conv_1", nodes),
            "no sum before Conv_3 (conv): Conv_3 (conv), conv_1");
  EXPECT_EQ(in_words_of_graph("", nodes), "");
  const Graph g = grouped(2, 3, 5);
  const GroupProgram group = to_te(*g.nodes[0].body, table());
  for (const te::Compute& c : group.program.computes) EXPECT_TRUE(group.nodes.contains(c.name())) << c.name();
}

TEST(OpTable, FindsRows) {
  EXPECT_NE(table().find("conv"), nullptr);
  EXPECT_EQ(table().find("convolution"), nullptr);
  EXPECT_THROW(table().at("convolution"), InternalError);
  std::vector<OpDef> twice(2, table().at("relu"));
  EXPECT_THROW(OpTable{twice}, InternalError);
}

}  // namespace
}  // namespace tw::graph::test
