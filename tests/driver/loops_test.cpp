// Loops in artefacts: right with any options, and as large for many turns as for few.
#include <gtest/gtest.h>

#include "tests/driver/loop_models.h"

namespace tw::driver::test {
namespace {

using graph::Graph;
using graph::Repeat;
using graph::ValueId;
using graph::test::add;
using graph::test::add_loop;
using graph::test::cell_body;
using graph::test::cell_model;
using graph::test::f32;
using graph::test::last_of;
using graph::test::nested_model;
using graph::test::turns_of;

TEST(Loops, TwoCarriedValuesInBothDirections) {
  for (const bool backwards : {false, true}) {
    for (const int64_t turns : {1, 2, 12}) expect_right(gated_model({.turns = turns, .backwards = backwards}));
  }
  EXPECT_EQ(repeats(compile_graph(gated_model({}), {})), 1U);
}

TEST(Loops, RowsOfAnyNumberAndSize) {
  for (const int64_t n : {0, 1, 3, 64}) {
    for (const int64_t kept : {2, 3, 9}) {
      Repeat repeat = turns_of(9, 1, 1, 1);
      repeat.rows[0] = kept;
      repeat.inputs_backwards = {kept == 3 ? 1 : 0};
      repeat.outputs_backwards = {kept == 9 ? 1 : 0, 1};
      expect_right(cell_model(repeat, n));
    }
  }
}

// Loops of both directions beside each other and one after the other, as bidirectional layers are.
TEST(Loops, BesideAndBehindEachOther) {
  Graph g;
  const ValueId h = g.add_input("h", f32({5})), w = g.add_input("w", f32({5}));
  ValueId x = g.add_input("x", f32({11, 5}));
  for (int layer = 0; layer < 2; ++layer) {
    std::vector<ValueId> both;
    for (const int64_t backwards : {0, 1}) {
      Repeat repeat = turns_of(11, 1, 1, 1);
      repeat.rows[0] = 11;
      repeat.inputs_backwards = {backwards};
      repeat.outputs_backwards = {backwards, backwards};
      both.push_back(add_loop(g, cell_body(5), {h, x, w}, repeat)[0]);
    }
    x = add(g, "add", both);
  }
  g.outputs = {x};
  expect_right(g);
  EXPECT_EQ(repeats(compile_graph(g, {})), 4U);
}

TEST(Loops, TheirOutputsMayBeTheModels) {
  Graph g = cell_model(turns_of(9, 1, 1, 1), 3);
  g.outputs = g.nodes[0].outputs;
  expect_right(g);
}

// The first value is a constant or an input, and rows are what another group makes, or constants.
TEST(Loops, BeginWithInputsConstantsAndWhatIsComputed) {
  for (const char* first : {"constant", "input", "computed", "another input"}) {
    SCOPED_TRACE(first);
    const std::string kind = first;
    Graph g;
    const ValueId h = g.add_input("h", f32({3})), w = g.add_input("w", f32({3}));
    const ValueId rows = kind == "constant" ? weight(g, "rows", {9, 3}) : g.add_input("x", f32({9, 3}));
    const ValueId begin = kind == "constant" ? weight(g, "begin", {3}) : kind == "computed" ? add(g, "exp", {h}) : h;
    const Repeat repeat = turns_of(9, 1, 1, 1);
    const std::vector<ValueId> made = add_loop(g, cell_body(3), {begin, rows, kind == "another input" ? h : w}, repeat);
    g.outputs = {last_of(g, made, repeat), made[1], add(g, "neg", {h})};
    expect_right(g);
  }
}

// Each is written in every turn, though nothing computes it.
TEST(Loops, OutputsOfBodiesThatAreInputsAndConstants) {
  Graph body;
  const ValueId a = body.add_input("a", f32({4})), b = body.add_input("b", f32({4})), x = body.add_input("x", f32({4})),
                same = body.add_input("same", f32({4}));
  const ValueId sum = add(body, "add", {a, x});
  body.outputs = {b, sum, weight(body, "c", {4}), x, same};
  Graph g;
  const Repeat repeat = turns_of(9, 2, 1, 3);
  g.outputs = add_loop(g, body,
                       {g.add_input("a", f32({4})), g.add_input("b", f32({4})), g.add_input("x", f32({9, 4})),
                        g.add_input("same", f32({4}))},
                       repeat);
  expect_right(g);
}

TEST(Loops, OutputsThatNobodyReadsAndInputsThatNoTurnReads) {
  Graph body;
  const ValueId a = body.add_input("a", f32({4})), x = body.add_input("x", f32({4})),
                same = body.add_input("same", f32({4}));
  body.outputs = {add(body, "neg", {a}), add(body, "exp", {a})};
  EXPECT_NE(x, same);
  Graph g;
  const Repeat repeat = turns_of(9, 1, 1, 1);
  const std::vector<ValueId> made = add_loop(
      g, body, {g.add_input("a", f32({4})), g.add_input("x", f32({9, 4})), g.add_input("same", f32({4}))}, repeat);
  g.outputs = {made[1]};
  expect_right(g);
}

// Values are stored otherwise inside of a body and around it, where that is best for convolutions.
TEST(Loops, OfConvolutions) {
  Graph body;
  const ValueId h = body.add_input("h", f32({1, 16, 10, 10})), x = body.add_input("x", f32({1, 16, 10, 10}));
  const std::vector<int64_t> pads{1, 1, 1, 1};
  const ValueId c = add(body, "conv", {h, weight(body, "v", {16, 16, 3, 3})}, {{"pads", pads}});
  const ValueId next = add(body, "tanh", {add(body, "add", {c, x})});
  body.outputs = {next, add(body, "conv", {next, weight(body, "vv", {16, 16, 3, 3})}, {{"pads", pads}})};
  Graph g;
  const ValueId image = g.add_input("image", f32({1, 16, 10, 10})), rows = g.add_input("rows", f32({9, 1, 16, 10, 10}));
  const ValueId first = add(g, "conv", {image, weight(g, "w", {16, 16, 3, 3})}, {{"pads", pads}});
  const Repeat repeat = turns_of(9, 1, 1, 1);
  const std::vector<ValueId> made = add_loop(g, body, {first, rows}, repeat);
  const ValueId last = last_of(g, made, repeat);
  g.outputs = {add(g, "conv", {last, weight(g, "www", {16, 16, 3, 3})}, {{"pads", pads}}), made[1]};
  expect_right(g);
}

// The storage of rows is another one than they say, where that saves a transpose.
TEST(Loops, OfTransposedRows) {
  const std::vector<int64_t> swap{1, 0, 2};
  for (const char* made_by : {"input", "tanh", "matmul", "tanh behind"}) {
    SCOPED_TRACE(made_by);
    const std::string kind = made_by;
    Graph g;
    ValueId rows = g.add_input("x", f32({5, 9, 24}));
    if (kind == "tanh") rows = add(g, "tanh", {rows});
    if (kind == "matmul") rows = add(g, "matmul", {rows, weight(g, "p", {24, 24})});
    rows = add(g, "transpose", {rows}, {{"perm", swap}});
    if (kind == "tanh behind") rows = add(g, "tanh", {rows});
    Graph body;
    const ValueId h = body.add_input("h", f32({5, 24})), x = body.add_input("x", f32({5, 24}));
    body.outputs = {add(body, "tanh", {add(body, "add", {add(body, "matmul", {h, weight(body, "w", {24, 24})}), x})})};
    Repeat repeat = turns_of(9, 1, 1, 0);
    repeat.rows[0] = 9;
    const std::vector<ValueId> made = add_loop(g, body, {g.add_input("h", f32({5, 24})), rows}, repeat);
    g.outputs = {add(g, "transpose", {made[0]}, {{"perm", swap}})};
    expect_right(g);
  }
}

// In a body, of what is carried and what is left.
TEST(Loops, OfTransposedMatrices) {
  const std::vector<int64_t> swap{1, 0};
  Graph body;
  const ValueId h = body.add_input("h", f32({24, 24})), x = body.add_input("x", f32({24, 24}));
  const ValueId product = add(body, "tanh", {add(body, "matmul", {add(body, "transpose", {h}, {{"perm", swap}}), x})});
  body.outputs = {add(body, "transpose", {product}, {{"perm", swap}}),
                  add(body, "transpose", {add(body, "exp", {product})}, {{"perm", swap}})};
  Graph g;
  const Repeat repeat = turns_of(9, 1, 1, 1);
  const std::vector<ValueId> made =
      add_loop(g, body, {g.add_input("h", f32({24, 24})), g.add_input("x", f32({9, 24, 24}))}, repeat);
  g.outputs = {last_of(g, made, repeat), made[1]};
  expect_right(g);
}

TEST(Loops, OfIntegersAndBools) {
  Graph body;
  const TensorType ints{DataType::i64(), {5}}, flags{DataType::boolean(), {5}};
  const ValueId n = body.add_input("n", ints), flag = body.add_input("flag", flags),
                step = body.add_input("step", ints);
  body.outputs = {add(body, "where", {flag, add(body, "add", {n, step}), n}), add(body, "not", {flag}),
                  add(body, "less", {n, step})};
  Graph g;
  g.outputs =
      add_loop(g, body, {g.add_input("n", ints), g.add_input("flag", flags), g.add_input("step", {ints.type, {9, 5}})},
               turns_of(9, 2, 1, 1));
  expect_right(g);
}

TEST(Loops, OfOtherTypes) {
  for (const DataType type : {DataType::f16(), DataType::bf16()}) {
    CompileOptions options;
    options.dtype = type;
    expect_right(gated_model({}), options);
    expect_right(nested_model({.outer = 9, .inner = 9, .n = 5}), options);
  }
}

// What verification reads back of an artefact is what it was made of.
TEST(Loops, AgreeWithTheGraphOfTheirArtefact) {
  for (const Graph& g : {gated_model({}), nested_model({.outer = 10, .inner = 12, .n = 5})}) {
    const std::vector<uint8_t> artefact = artefact_bytes(compile_graph(g, {}));
    const artefact::VerifyReport report = artefact::verify_artefact(artefact, nullptr, random_arrays(g, 1), {});
    EXPECT_TRUE(report.ok()) << faults(report);
  }
}

TEST(Loops, OfOtherPrecisions) {
  for (const Precision precision : {Precision::kStrict, Precision::kFast}) {
    CompileOptions options;
    options.precision = precision;
    options.target = "cpu:x86-64-v3";
    expect_right(gated_model({}), options);
  }
}

// ---- Size.

struct Size {
  int64_t kernels, steps, bytes;
};
Size size_of(int64_t turns) {
  const Compiled made = compile_graph(gated_model({.turns = turns, .n = 16}), {});
  return {std::ssize(made.manifest.kernels), std::ssize(made.manifest.entries[0].cpu_steps),
          std::ssize(artefact_bytes(made))};
}

TEST(Loops, AreAsLargeForManyTurns) {
  const Size few = size_of(20), many = size_of(2000);
  EXPECT_EQ(few.kernels, many.kernels);
  EXPECT_EQ(few.steps, many.steps);
  // Numbers in texts have more digits.
  EXPECT_NEAR(static_cast<double>(few.bytes), static_cast<double>(many.bytes), 0.02 * static_cast<double>(few.bytes));
}

}  // namespace
}  // namespace tw::driver::test
