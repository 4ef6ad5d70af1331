// Loops in graphs: unrolled they compute the same; constants move into bodies; loops of different bodies stay apart.
#include "tests/graph/loops.h"

#include <gtest/gtest.h>

#include "support/join.h"
#include "tests/transform/graph_tools.h"
#include "transform/loops/unroll.h"

namespace tw::transform {
namespace {

using graph::Graph;
using graph::Repeat;
using graph::ValueId;
using graph::test::add;
using graph::test::add_loop;
using graph::test::cell_body;
using graph::test::cell_model;
using graph::test::f32;
using graph::test::Nested;
using graph::test::nested_body;
using graph::test::nested_model;
using graph::test::turns_of;
using testing::context;
using testing::count_nodes;
using testing::expect_same_function;
using testing::run_pass;

void expect_unrolls(const Graph& g) {
  graph::verify(g, context().ops);
  const Graph unrolled = unroll_all(g, context().ops);
  graph::verify(unrolled, context().ops);
  EXPECT_EQ(count_nodes(unrolled, graph::kRepeat), 0);
  expect_same_function(g, unrolled, 0);
}

// Around 32 and above: rows are cut in blocks there.
const int64_t kTurns[] = {1, 2, 7, 32, 33, 70};

TEST(Unroll, BothDirectionsAndAnyRows) {
  for (const int64_t turns : kTurns) {
    SCOPED_TRACE(turns);
    for (const int64_t backwards : {0, 1}) {
      for (const int64_t kept : {std::min<int64_t>(turns, 2), turns}) {
        Repeat repeat = turns_of(turns, 1, 1, 1);
        repeat.rows[0] = kept;
        repeat.inputs_backwards = {backwards};
        repeat.outputs_backwards = {kept == turns ? 1 - backwards : 0, backwards};
        expect_unrolls(cell_model(repeat, 5));
      }
    }
  }
}

TEST(Unroll, LoopsWithinLoops) {
  for (const int64_t inner : {1, 4, 33}) {
    for (const bool reads_carried : {false, true})
      expect_unrolls(nested_model({.outer = 3, .inner = inner, .n = 3, .reads_carried = reads_carried}));
  }
}

// Body outputs that are inputs or constants of the body, and one that leaves it twice.
TEST(Unroll, OutputsThatNothingInTheBodyComputes) {
  Graph body;
  const ValueId a = body.add_input("a", f32({2})), b = body.add_input("b", f32({2})), x = body.add_input("x", f32({2}));
  const ValueId c = body.add_constant("c", f32({2}), graph::test::bytes_of<float>({3, 4}));
  const ValueId sum = add(body, "add", {a, x});
  body.outputs = {b, sum, c, add(body, "mul", {a, x}), x};
  Graph g;
  const Repeat repeat = turns_of(5, 2, 1, 3);
  g.outputs = add_loop(g, body, {g.add_input("a", f32({2})), g.add_input("b", f32({2})), g.add_input("x", f32({5, 2}))},
                       repeat);
  expect_unrolls(g);
}

// An element in each turn, and rows of two axes.
TEST(Unroll, RowsOfAnyRank) {
  for (const Shape& row : {Shape{}, Shape{1}, Shape{2, 3}}) {
    Graph body;
    const ValueId h = body.add_input("h", f32(row)), x = body.add_input("x", f32(row));
    body.outputs = {add(body, "max", {h, x})};
    Graph g;
    Shape stacked = row;
    stacked.insert(stacked.begin(), 40);
    Repeat repeat = turns_of(40, 1, 1, 0);
    repeat.rows = {40};
    g.outputs = add_loop(g, body, {g.add_input("h", f32(row)), g.add_input("x", f32(stacked))}, repeat);
    expect_unrolls(g);
  }
}

TEST(Unroll, NodesAreNamedAfterTheirTurns) {
  const Graph g = unroll_all(cell_model(turns_of(3, 1, 1, 1), 2), context().ops);
  std::vector<std::string> names;
  for (const graph::Node& node : g.nodes) {
    if (node.op == "tanh") names.push_back(node.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"tanh/0", "tanh/1", "tanh/2"}));
}

TEST(Unroll, TakesTheLoopsThatItIsTold) {
  const Graph g = nested_model({.outer = 3, .inner = 4});
  const Graph flat =
      unroll(g, context().ops, [](const Graph&, const graph::Node& loop) { return loop.name == "loop"; });
  EXPECT_EQ(count_nodes(flat, graph::kRepeat), 3) << "the inner one in each turn";
  expect_same_function(g, flat, 0);
}

TEST(UnrollLoops, LeavesLoopsOfManyTurns) {
  for (const int64_t turns : {1, 2, 8, 9, 40}) {
    const Graph g = cell_model(turns_of(turns, 1, 1, 1), 3);
    const Graph after = run_pass(g, "unroll-loops");
    EXPECT_EQ(count_nodes(after, graph::kRepeat), turns > 8 ? 1 : 0) << turns;
    expect_same_function(g, after, 0);
  }
}

// A loop of few turns around one of many: the latter is then one in each of those.
TEST(UnrollLoops, LooksAtLoopsOfUnrolledTurns) {
  const auto left = [](int64_t outer, int64_t inner) {
    return count_nodes(run_pass(nested_model({.outer = outer, .inner = inner}), "unroll-loops"), graph::kRepeat);
  };
  EXPECT_EQ(left(3, 12), 3);
  EXPECT_EQ(left(3, 4), 0);
  EXPECT_EQ(left(12, 4), 1) << "the body of one that stays is looked at when it is compiled";
}

// ---- Constants.

// The first value, the rows and what is the same in every turn are constants, or inputs.
Graph with_constants(const std::vector<bool>& is_constant) {
  const std::vector<Shape> shapes = {{2}, {12, 2}, {2}};
  Graph g;
  std::vector<ValueId> inputs;
  for (size_t k = 0; k < shapes.size(); ++k) {
    const std::string name = fmt::format("in{}", k);
    const std::vector<float> values(static_cast<size_t>(num_elements(shapes[k])), 0.25F + 0.5F * static_cast<float>(k));
    inputs.push_back(is_constant[k] ? g.add_constant(name, f32(shapes[k]), graph::test::bytes_of(values))
                                    : g.add_input(name, f32(shapes[k])));
  }
  g.outputs = add_loop(g, cell_body(2), inputs, turns_of(12, 1, 1, 1));
  return g;
}

const graph::Node& loop_in(const Graph& g) { return *std::ranges::find(g.nodes, graph::kRepeat, &graph::Node::op); }

TEST(HoldConstants, WhatIsTheSameMovesIn) {
  const Graph g = with_constants({false, false, true});
  const Graph held = run_pass(g, "hold-constants");
  expect_same_function(g, held, 0);
  EXPECT_EQ(loop_in(held).inputs.size(), 2U);
  const Graph& body = *loop_in(held).body;
  EXPECT_EQ(body.inputs.size(), 2U);
  EXPECT_TRUE(body.value(body.find_value("w")).is_constant());
  EXPECT_EQ(held.find_value("in2"), graph::kAbsent);
}

TEST(HoldConstants, WhatIsCarriedOrScannedStaysOutside) {
  const Graph g = with_constants({true, true, false});
  EXPECT_EQ(graph::to_string(run_pass(g, "hold-constants")), graph::to_string(graph::compact(g)));
  const Graph all = with_constants({true, true, true});
  EXPECT_EQ(loop_in(run_pass(all, "hold-constants")).inputs.size(), 2U);
  expect_same_function(all, run_pass(all, "hold-constants"), 0);
}

// An operator takes at least one input.
TEST(HoldConstants, ALoopKeepsAnInput) {
  Graph body;
  body.outputs = {add(body, "relu", {body.add_input("x", f32({2}))})};
  Graph g;
  const ValueId c = g.add_constant("c", f32({2}), graph::test::bytes_of<float>({-1, 1}));
  g.outputs = add_loop(g, body, {c}, turns_of(12, 0, 0, 1));
  expect_same_function(g, run_pass(g, "hold-constants"), 0);
}

TEST(FoldConstants, ComputesNoLoops) {
  const Graph g = with_constants({true, true, true});
  EXPECT_EQ(count_nodes(run_pass(g, "fold-constants"), graph::kRepeat), 1);
}

// ---- Loops beside each other.

Graph two_loops(const std::string& op) {
  Graph g;
  const ValueId h = g.add_input("h", f32({2})), x = g.add_input("x", f32({12, 2})), w = g.add_input("w", f32({2}));
  Graph other = cell_body(2);
  other.nodes[2].op = op;
  const std::vector<ValueId> a = add_loop(g, cell_body(2), {h, x, w}, turns_of(12, 1, 1, 1)),
                             b = add_loop(g, other, {h, x, w}, turns_of(12, 1, 1, 1));
  g.outputs = {a[0], b[0]};
  return g;
}

TEST(CommonSubexpressions, LoopsOfOtherBodiesAreOthers) {
  const Graph g = two_loops("sigmoid");
  const Graph after = run_pass(g, "common-subexpressions");
  EXPECT_EQ(count_nodes(after, graph::kRepeat), 2);
  expect_same_function(g, after, 0);
}

// ---- Bodies as artefacts have them.

TEST(PlaceableBody, LoopsThatReadWhatIsCarriedAreUnrolled) {
  for (const bool reads_carried : {false, true}) {
    const Graph g = nested_model({.outer = 12, .inner = 9, .n = 3, .reads_carried = reads_carried});
    const Graph body = placeable_body(g.nodes[0], context().ops);
    graph::verify(body, context().ops);
    EXPECT_EQ(count_nodes(body, graph::kRepeat), reads_carried ? 0 : 1);
    expect_same_function(*g.nodes[0].body, body, 0);
  }
}

// As what is the same in every turn, too, not as the first value alone.
TEST(PlaceableBody, AnyReadOfWhatIsCarriedCounts) {
  Graph body;
  const ValueId s = body.add_input("s", f32({3})), x = body.add_input("x", f32({9, 3}));
  const ValueId zero = body.add_constant("zero", f32({3}), graph::test::bytes_of<float>({0, 0, 0}));
  const Repeat repeat = turns_of(9, 1, 1, 1);
  const std::vector<ValueId> made = add_loop(body, cell_body(3), {zero, x, s}, repeat);
  body.outputs = {graph::test::last_of(body, made, repeat)};
  Graph g;
  g.outputs = add_loop(g, body, {g.add_input("s", f32({3})), g.add_input("x", f32({9, 3}))}, turns_of(12, 1, 0, 0));
  EXPECT_EQ(count_nodes(placeable_body(g.nodes[0], context().ops), graph::kRepeat), 0);
}

TEST(Pipeline, LoopsAreGroupsOfTheirOwn) {
  for (const bool plain : {false, true}) {
    RunOptions options;
    options.all_optional_off = plain;
    const Graph g = cell_model(turns_of(12, 1, 1, 1), 3);
    const Graph groups = transform(g, context(), options);
    const auto loops = std::ranges::count_if(groups.nodes, [](const auto& n) { return graph::loop_of(n) != nullptr; });
    EXPECT_EQ(loops, 1);
    expect_same_function(g, groups, 0);
  }
}

}  // namespace
}  // namespace tw::transform
