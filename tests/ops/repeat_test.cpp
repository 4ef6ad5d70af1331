// Loops: what their turns compute, against numbers written down; what is refused, in its words.
#include "graph/repeat.h"

#include <gtest/gtest.h>

#include "check.h"
#include "graph/error_output.h"
#include "support/error.h"
#include "tests/graph/loops.h"

namespace tw::ops::test {
namespace {

using graph::Graph;
using graph::Repeat;
using graph::ValueId;
using graph::test::add;
using graph::test::add_loop;
using graph::test::turns_of;

// What the loop makes of `inputs`: of them as the graph's inputs.
std::vector<RefTensor> outputs_of(const Graph& body, const Repeat& repeat, const std::vector<RefTensor>& inputs) {
  Graph g;
  std::vector<ValueId> ids;
  for (const RefTensor& input : inputs) ids.push_back(g.add_input("x", input.type));
  g.outputs = add_loop(g, body, ids, repeat);
  graph::verify(g, graph::test::table());
  return graph::test::table().at("repeat").reference(graph::make_call(g, g.nodes[0]), inputs);
}

// h = 2 h + x of one element each; 10 x is made, too.
Graph doubling() {
  Graph g;
  const ValueId h = g.add_input("h", f32({1})), x = g.add_input("x", f32({1})), ten = g.add_input("ten", f32({1}));
  g.outputs = {add(g, "add", {add(g, "add", {h, h}), x}), add(g, "mul", {x, ten})};
  return g;
}

struct Rows {
  int64_t kept;  // of the carried value
  int64_t input_backwards, carried_backwards, made_backwards;
  std::vector<double> carried, made;
};

// From h = 1 with rows 1, 2, 3, 4: h is 3, 8, 19, 42, or backwards 6, 15, 32, 65.
const Rows kRows[] = {
    {4, 0, 0, 0, {3, 8, 19, 42}, {10, 20, 30, 40}},  {4, 0, 1, 1, {42, 19, 8, 3}, {40, 30, 20, 10}},
    {4, 1, 0, 0, {6, 15, 32, 65}, {40, 30, 20, 10}}, {4, 1, 1, 1, {65, 32, 15, 6}, {10, 20, 30, 40}},
    {2, 0, 0, 0, {19, 42}, {10, 20, 30, 40}},        {2, 1, 0, 1, {32, 65}, {10, 20, 30, 40}},
    {3, 0, 0, 0, {42, 8, 19}, {10, 20, 30, 40}},     {2, 0, 1, 0, {42, 19}, {10, 20, 30, 40}},
};

TEST(Repeat, TurnsReadAndWriteTheirRows) {
  for (const Rows& rows : kRows) {
    Repeat repeat = turns_of(4, 1, 1, 1);
    repeat.rows[0] = rows.kept;
    repeat.inputs_backwards = {rows.input_backwards};
    repeat.outputs_backwards = {rows.carried_backwards, rows.made_backwards};
    const std::vector<RefTensor> got =
        outputs_of(doubling(), repeat, {floats({1}, {1}), floats({4, 1}, {1, 2, 3, 4}), floats({1}, {10})});
    EXPECT_EQ(got[0].type.shape, (Shape{rows.kept, 1}));
    EXPECT_EQ(got[0].floats, rows.carried) << rows.kept << rows.input_backwards << rows.carried_backwards;
    EXPECT_EQ(got[1].floats, rows.made) << rows.kept << rows.input_backwards << rows.made_backwards;
  }
}

TEST(Repeat, OfOneTurnAndWithoutCarriedValues) {
  const std::vector<RefTensor> once =
      outputs_of(doubling(), turns_of(1, 1, 1, 1), {floats({1}, {3}), floats({1, 1}, {4}), floats({1}, {10})});
  EXPECT_EQ(once[0].floats, std::vector<double>{10});
  EXPECT_EQ(once[1].floats, std::vector<double>{40});
  Graph halves;
  halves.outputs = {add(halves, "floor", {halves.add_input("x", f32({2}))})};
  const auto made = outputs_of(halves, turns_of(2, 0, 1, 1), {floats({2, 2}, {0.5, 1.5, 2.5, -0.5})});
  EXPECT_EQ(made[0].floats, (std::vector<double>{0, 1, 2, -1}));
}

// n = n + 1 while a flag alternates: integers and bools are carried, scanned and made like floats.
TEST(Repeat, OfIntegersAndBools) {
  Graph g;
  const ValueId n = g.add_input("n", i64({2})), flag = g.add_input("flag", boolean({})),
                step = g.add_input("step", i64({2})), on = g.add_input("on", boolean({2}));
  g.outputs = {add(g, "add", {n, step}), add(g, "not", {flag}), add(g, "and", {on, flag})};
  Repeat repeat = turns_of(3, 2, 2, 1);
  repeat.rows = {3, 2, 3};
  const auto got = outputs_of(
      g, repeat,
      {ints(DataType::i64(), {2}, {1, -1}), ints(DataType::boolean(), {}, {1}),
       ints(DataType::i64(), {3, 2}, {1, 2, 3, 4, 5, 6}), ints(DataType::boolean(), {3, 2}, {1, 0, 1, 1, 0, 1})});
  EXPECT_EQ(got[0].ints, (std::vector<int64_t>{2, 1, 5, 5, 10, 11}));
  EXPECT_EQ(got[1].ints, (std::vector<int64_t>{0, 1})) << "after turns 2 and 1";
  EXPECT_EQ(got[2].ints, (std::vector<int64_t>{1, 0, 0, 0, 0, 1}));
}

// Two carried values that change places need what the turn before left of both.
TEST(Repeat, CarriedValuesMaySwap) {
  Graph g;
  const ValueId a = g.add_input("a", f32({1})), b = g.add_input("b", f32({1}));
  g.outputs = {add(g, "identity", {b}), add(g, "add", {a, b})};
  Repeat fibonacci = turns_of(7, 2, 0, 0);
  fibonacci.rows = {7, 7};
  const auto got = outputs_of(g, fibonacci, {floats({1}, {0}), floats({1}, {1})});
  EXPECT_EQ(got[0].floats, (std::vector<double>{1, 1, 2, 3, 5, 8, 13}));
  EXPECT_EQ(got[1].floats, (std::vector<double>{1, 2, 3, 5, 8, 13, 21}));
}

TEST(Repeat, BodiesMayHaveAnErrorWord) {
  Graph body = doubling();
  body.outputs.push_back(add(body, "cast", {body.inputs[2]}, {{"to", std::string("i32")}}));
  body.values[body.outputs[2]].name = graph::kErrorOutput;
  const auto got =
      outputs_of(body, turns_of(4, 1, 1, 1), {floats({1}, {1}), floats({4, 1}, {1, 2, 3, 4}), floats({1}, {10})});
  EXPECT_EQ(got.size(), 2U) << "it is no output of the loop";
}

TEST(Repeat, LoopsWithinLoops) {
  const graph::test::Nested of{.outer = 3, .inner = 4, .n = 1};
  const std::vector<RefTensor> inputs{floats({1}, {0}), floats({3, 1}, {0, 0, 0}), floats({4, 1}, {0, 0, 0, 0.5}),
                                      floats({1}, {1})};
  const auto got = outputs_of(graph::test::nested_body(of), turns_of(3, 1, 1, 1), inputs);
  EXPECT_DOUBLE_EQ(got[0].floats[(of.outer - 1) % 2], 3 * std::tanh(0.5));
  EXPECT_EQ(got[1].type.shape, (Shape{3, 4, 1}));
}

// ---- Refusals.

using Change = std::function<void(Repeat&, std::vector<TensorType>&, Graph& body)>;

void expect_refused(const std::string& message, const Change& change) {
  Repeat repeat = turns_of(4, 1, 1, 1);
  std::vector<TensorType> inputs{f32({1}), f32({4, 1}), f32({1})};
  Graph body = doubling(), g;
  change(repeat, inputs, body);
  std::vector<ValueId> ids;
  for (const TensorType& type : inputs) ids.push_back(type == absent() ? graph::kAbsent : g.add_input("x", type));
  try {
    add_loop(g, body, ids, repeat);
    ADD_FAILURE() << "taken: " << message;
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
  }
}

TEST(Repeat, WhatDoesNotFitIsRefused) {
  expect_refused("2 inputs, its body has 3", [](auto&, auto& inputs, auto&) { inputs.pop_back(); });
  expect_refused("input 2 is missing", [](auto&, auto& inputs, auto&) { inputs[2] = absent(); });
  expect_refused("its first extent should be 4", [](auto&, auto& inputs, auto&) { inputs[1] = f32({3, 1}); });
  expect_refused("its first extent should be 4", [](auto&, auto& inputs, auto&) { inputs[1] = f32({}); });
  expect_refused("input 1 gives f32[2], its body takes f32[1]", [](auto&, auto& inputs, auto&) {
    inputs[1] = f32({4, 2});
  });
  expect_refused("input 0 gives f16[1], its body takes f32[1]",
                 [](auto&, auto& inputs, auto&) { inputs[0] = f16({1}); });
  expect_refused("carried value 0 is f32[1], and i64[1] after a turn", [](auto&, auto&, Graph& body) {
    body.outputs[0] = add(body, "cast", {body.outputs[0]}, {{"to", std::string("i64")}});
  });
  expect_refused("0 turns", [](Repeat& repeat, auto& inputs, auto&) {
    repeat.turns = 0;
    inputs[1] = f32({0, 1});
  });
  expect_refused("output 1 has 2 rows of 4 turns", [](Repeat& repeat, auto&, auto&) { repeat.rows[1] = 2; });
  for (const int64_t rows : {0, 1, 5})
    expect_refused(fmt::format("output 0 has {} rows of 4 turns", rows),
                   [&](Repeat& repeat, auto&, auto&) { repeat.rows[0] = rows; });
  expect_refused("rows of 1 outputs, its body has 2", [](Repeat& repeat, auto&, auto&) {
    repeat.rows.pop_back();
    repeat.outputs_backwards.pop_back();
  });
  expect_refused("rows of 2 outputs, its body has 2", [](Repeat& repeat, auto& inputs, auto&) {
    repeat.carried = 3;
    repeat.scanned = 0;
    repeat.inputs_backwards = {};
    inputs = {f32({1}), f32({1}), f32({1})};
  });
}

}  // namespace
}  // namespace tw::ops::test
