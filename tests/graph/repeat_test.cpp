// Loops as nodes: their text, the rules that they keep, which rows their turns read and write, names in their bodies.
#include "graph/repeat.h"

#include <gtest/gtest.h>

#include "graph/error_output.h"
#include "support/error.h"
#include "tests/graph/loops.h"
#include "tests/harness/graph_evaluate.h"

namespace tw::graph::test {
namespace {

void expect_round_trip(const Graph& g) {
  const std::string text = to_string(g);
  const Graph again = parse_graph(text, large_constants(g));
  verify(again, table());
  EXPECT_EQ(text, to_string(again));
}

TEST(RepeatText, Golden) {
  Graph body;
  body.name = "double";
  const ValueId h = body.add_input("h", f32({2}));
  body.outputs = {add(body, "add", {h, h})};
  Graph g;
  g.name = "g";
  g.outputs = add_loop(g, body, {g.add_input("x", f32({2}))}, turns_of(5, 1, 0, 0));
  EXPECT_EQ(to_string(g),
            "graph g {\n"
            "  input x : f32[2]\n"
            "  loop : f32[2, 2] = repeat(x) {carried = 1, inputs_backwards = [], outputs_backwards = [0], rows = [2], "
            "scanned = 0, turns = 5} as loop graph double {\n"
            "    input h : f32[2]\n"
            "    add : f32[2] = add(h, h) as add\n"
            "    output add\n"
            "  }\n"
            "  output loop\n"
            "}\n");
}

TEST(RepeatText, OfLoopsWithinLoops) {
  for (const int64_t turns : {1, 2, 7}) {
    expect_round_trip(cell_model(turns_of(turns, 1, 1, 1), 3));
    expect_round_trip(nested_model({.outer = turns, .inner = 3}));
  }
}

// w of a body is too large for the text.
Graph with_large_constant() {
  Graph g;
  g.name = "around";
  g.outputs = add_loop(g, mlp(3, 7, 7), {g.add_input("x", f32({3, 7}))}, turns_of(4, 1, 0, 0));
  return g;
}

TEST(RepeatText, LargeConstantsOfBodies) {
  const Graph g = with_large_constant();
  expect_round_trip(g);
  const auto constants = large_constants(g);
  ASSERT_EQ(constants.size(), 1U);
  const Graph again = parse_graph(to_string(g), constants);
  const Graph& body = *again.nodes[0].body;
  EXPECT_EQ(body.value(body.find_value("w")).constant, constants.begin()->second);
  EXPECT_THROW(parse_graph(to_string(g), {}), UserError);
}

// Graphs of equal outlines are one code: what a body computes, and how often, is part of it.
TEST(RepeatText, OutlinesTellBodiesApart) {
  const Graph g = cell_model(turns_of(5, 1, 1, 1), 3);
  Graph other = g;
  Graph body = *g.nodes[0].body;
  body.nodes[2].op = "sigmoid";
  other.nodes[0].body = std::make_shared<const Graph>(body);
  EXPECT_NE(to_outline(g), to_outline(other));
  EXPECT_NE(to_outline(g), to_outline(cell_model(turns_of(6, 1, 1, 1), 3)));
}

void expect_rejected(const std::function<void(Graph&, Graph& body)>& break_it, const std::string& message) {
  Graph g = cell_model(turns_of(5, 1, 1, 1), 3);
  verify(g, table());
  Graph body = *g.nodes[0].body;
  break_it(g, body);
  if (g.nodes[0].body != nullptr) g.nodes[0].body = std::make_shared<const Graph>(body);
  try {
    verify(g, table());
    ADD_FAILURE() << "accepted: " << message;
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
  }
}

TEST(RepeatVerify, RejectsBrokenLoops) {
  expect_rejected([](Graph& g, Graph& body) { g.nodes[1].body = std::make_shared<const Graph>(body); },
                  "only groups and loops have bodies");
  expect_rejected([](Graph& g, Graph&) { g.nodes[0].body = nullptr; }, "only groups and loops have bodies");
  expect_rejected([](Graph& g, Graph&) { g.nodes[0].inputs.pop_back(); }, "2 inputs, its body has 3");
  expect_rejected([](Graph&, Graph& body) { body.inputs.pop_back(); }, "before it is computed");
  expect_rejected([](Graph&, Graph& body) { std::swap(body.nodes[0], body.nodes[1]); }, "before it is computed");
  expect_rejected([](Graph& g, Graph&) { std::swap(g.nodes[0].inputs[0], g.nodes[0].inputs[1]); },
                  "input 0 gives f32[5,3], its body takes f32[3]");
  expect_rejected([](Graph& g, Graph&) { g.values[g.nodes[0].outputs[0]].type.shape[0] = 3; }, "f32[3,3]");
  expect_rejected([](Graph& g, Graph&) { g.nodes[0].attrs.erase("turns"); }, "turns");
  expect_rejected(
      [](Graph& g, Graph&) {
        g.nodes[0].attrs["inputs_backwards"] = std::vector<int64_t>{0, 0};
      },
      "has 2 numbers for 1");
}

TEST(Repeat, AttributesComeBack) {
  Repeat repeat = turns_of(9, 2, 1, 1);
  repeat.rows = {9, 3, 9};
  repeat.inputs_backwards = {1};
  repeat.outputs_backwards = {1, 0, 1};
  Node node{.op = std::string(kRepeat), .name = "n", .attrs = attrs_of(repeat)};
  EXPECT_THROW(repeat_of(node), InternalError) << "it has no body";
  node.body = std::make_shared<const Graph>();
  const Repeat again = repeat_of(node);
  EXPECT_EQ(attrs_of(again), node.attrs);
  EXPECT_EQ(again.rows, repeat.rows);
  node.op = "relu";
  EXPECT_THROW(repeat_of(node), InternalError);
}

std::vector<int64_t> rows_written(const Repeat& repeat, size_t output) {
  std::vector<int64_t> rows;
  for (int64_t turn = 0; turn < repeat.turns; ++turn) rows.push_back(repeat.output_row(output, turn));
  return rows;
}

TEST(Repeat, RowsOfTurns) {
  Repeat repeat = turns_of(5, 2, 2, 2);
  repeat.rows = {2, 3, 5, 5};
  repeat.inputs_backwards = {0, 1};
  repeat.outputs_backwards = {0, 0, 0, 1};
  for (int64_t turn = 0; turn < 5; ++turn) {
    EXPECT_EQ(repeat.input_row(0, turn), turn);
    EXPECT_EQ(repeat.input_row(1, turn), 4 - turn);
  }
  EXPECT_EQ(rows_written(repeat, 0), (std::vector<int64_t>{0, 1, 0, 1, 0}));
  EXPECT_EQ(rows_written(repeat, 1), (std::vector<int64_t>{0, 1, 2, 0, 1}));
  EXPECT_EQ(rows_written(repeat, 2), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(rows_written(repeat, 3), (std::vector<int64_t>{4, 3, 2, 1, 0}));
  repeat.outputs_backwards[0] = 1;
  EXPECT_EQ(rows_written(repeat, 0), (std::vector<int64_t>{0, 1, 0, 1, 0})) << "row T - 1 - t, of two";
}

// A group of one loop, whose body is groups.
Graph grouped_loop(const Graph& inner) {
  Graph g;
  g.name = "whole";
  const ValueId x = g.add_input("x", f32({2, 3}));
  Graph group;
  group.name = "group";
  group.outputs = add_loop(group, inner, {group.add_input("x", f32({2, 3}))}, turns_of(4, 1, 0, 0));
  const TensorType stack = group.value(group.outputs[0]).type;
  g.outputs = g.add_node(
      {.op = "group", .name = "loop", .inputs = {x}, .body = std::make_shared<const Graph>(std::move(group))}, {stack});
  return g;
}

TEST(Bodies, HaveTheNameOfTheLoopBeforeTheirNames) {
  Graph body;
  const ValueId h = body.add_input("h", f32({2, 3}));
  body.outputs = {add(body, "relu", {h}), body.add_value(std::string(kErrorOutput), f32({}))};
  const Graph named = with_prefix(body, "y/");
  EXPECT_EQ(named.value(h).name, "y/h");
  EXPECT_EQ(named.value(named.outputs[0]).name, "y/relu");
  EXPECT_EQ(named.value(named.outputs[1]).name, kErrorOutput) << "it is one for all bodies";
}

TEST(Bodies, OfLoopsWithinThemAreNamedToo) {
  Graph inner;
  const ValueId h = inner.add_input("h", f32({2, 3}));
  inner.outputs = {add(inner, "relu", {h})};
  const Graph whole = grouped_loop(inner);
  const Node& group = whole.nodes[0];
  ASSERT_NE(loop_of(group), nullptr);
  EXPECT_EQ(body_prefix(whole, group), whole.value(whole.outputs[0]).name + "/");
  const Graph named = with_prefix(whole, "a/");
  EXPECT_EQ(named.value(named.inputs[0]).name, "a/x");
  EXPECT_EQ(loop_of(named.nodes[0])->body->value(0).name, "a/h");
  EXPECT_EQ(named.nodes[0].body->value(0).name, "x") << "within a group names are its own";
  EXPECT_EQ(loop_of(group)->body->value(0).name, "h") << "the original stays";
}

TEST(Bodies, OtherGroupsAreNoLoops) {
  EXPECT_EQ(loop_of(grouped(2, 3, 5).nodes[0]), nullptr);
  EXPECT_EQ(loop_of(grouped(2, 3, 5).nodes[1]), nullptr);
  const Graph loop = cell_model(turns_of(3, 1, 1, 1), 2);
  EXPECT_EQ(loop_of(loop.nodes[0]), nullptr) << "a loop outside of a group";
  EXPECT_FALSE(loop.nodes[0].is_group());
}

TEST(RefTensor, RowsLackTheFirstAxis) {
  const RefTensor x = counting({3, 2, 2});
  const RefTensor row = x.row(2);
  EXPECT_EQ(row.type, f32({2, 2}));
  EXPECT_EQ(row.floats, std::vector<double>(x.floats.begin() + 8, x.floats.end()));
  const RefTensor flags{{DataType::boolean(), {2}}, {}, {0, 1}};
  EXPECT_EQ(flags.row(1).type, (TensorType{DataType::boolean(), {}}));
  EXPECT_EQ(flags.row(1).ints, std::vector<int64_t>{1});
  EXPECT_EQ(RefTensor::zeros({DataType::i64(), {2, 0}}).row(1).type.shape, Shape{0});
}

}  // namespace
}  // namespace tw::graph::test
