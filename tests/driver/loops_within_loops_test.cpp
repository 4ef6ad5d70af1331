// Loops within loops, in artefacts: the body of the outer one has the inner one, or its turns.
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
using graph::test::f32;
using graph::test::last_of;
using graph::test::nested_model;
using graph::test::turns_of;

TEST(LoopsWithinLoops, AreKeptOrUnrolled) {
  const Graph kept = nested_model({.outer = 10, .inner = 12, .n = 5}),
              unrolled = nested_model({.outer = 10, .inner = 12, .n = 5, .reads_carried = true});
  expect_right(kept);
  expect_right(unrolled);
  EXPECT_EQ(repeats(compile_graph(kept, {})), 2U);
  EXPECT_EQ(repeats(compile_graph(unrolled, {})), 1U);
}

// The inner loop begins with what the outer one carries, and reads it otherwise: by way of operators that move nothing.
TEST(LoopsWithinLoops, MayReadViewsOfWhatIsCarried) {
  for (const char* op : {"reshape", "identity", "dropout-like mul", "transpose"}) {
    SCOPED_TRACE(op);
    const std::string kind = op;
    Graph body;
    const ValueId s = body.add_input("s", f32({3, 1})), x = body.add_input("xs", f32({9, 3})),
                  w = body.add_input("ws", f32({3}));
    ValueId first = s;
    if (kind == "identity") first = add(body, "identity", {first});
    if (kind == "dropout-like mul")
      first = add(body, "mul", {first, body.add_constant("one", f32({}), graph::test::bytes_of<float>({1}))});
    if (kind == "transpose") first = add(body, "transpose", {first}, {{"perm", std::vector<int64_t>{1, 0}}});
    first = add(body, "reshape", {first}, {{"shape", Shape{3}}});
    const Repeat inner = turns_of(9, 1, 1, 1);
    const std::vector<ValueId> made = add_loop(body, cell_body(3), {first, x, w}, inner, "inner");
    body.outputs = {add(body, "reshape", {last_of(body, made, inner)}, {{"shape", Shape{3, 1}}})};
    Graph g;
    const Repeat repeat = turns_of(10, 1, 0, 0);
    const std::vector<ValueId> stacks = add_loop(
        g, body, {g.add_input("s", f32({3, 1})), g.add_input("x", f32({9, 3})), g.add_input("w", f32({3}))}, repeat);
    g.outputs = {last_of(g, stacks, repeat)};
    expect_right(g);
  }
}

// The inner loop's stack is what the outer one carries, and rows of the outer one are what the inner one scans.
TEST(LoopsWithinLoops, ScanRowsAndWriteThem) {
  Graph body;
  const ValueId table = body.add_input("table", f32({6, 3})), rows = body.add_input("rows", f32({6, 3})),
                w = body.add_input("w", f32({3}));
  Repeat inner = turns_of(6, 1, 1, 1);
  inner.rows[0] = 6;
  inner.inputs_backwards = {1};
  inner.outputs_backwards = {1, 0};
  const std::vector<ValueId> made = add_loop(body, cell_body(3), {w, rows, w}, inner, "inner");
  body.outputs = {made[0], made[1], add(body, "add", {table, made[0]})};
  Graph g;
  Repeat repeat = turns_of(10, 1, 1, 2);
  repeat.outputs_backwards = {0, 1, 0};
  const std::vector<ValueId> stacks = add_loop(
      g, body, {g.add_input("table", f32({6, 3})), g.add_input("rows", f32({10, 6, 3})), g.add_input("w", f32({3}))},
      repeat);
  g.outputs = {last_of(g, stacks, repeat), stacks[1], stacks[2]};
  expect_right(g);
}

// Three deep, the innermost of few turns.
TEST(LoopsWithinLoops, OfThree) {
  Graph outer;
  const ValueId s = outer.add_input("s", f32({3})), row = outer.add_input("row", f32({9, 3})),
                x = outer.add_input("xs", f32({10, 3})), w = outer.add_input("ws", f32({3}));
  const Repeat middle = turns_of(9, 1, 1, 1);
  const std::vector<ValueId> made =
      add_loop(outer, graph::test::nested_body({.inner = 10, .n = 3}), {w, row, x, w}, middle, "middle");
  outer.outputs = {add(outer, "sub", {s, last_of(outer, made, middle)}), made[1]};
  Graph g;
  const Repeat repeat = turns_of(11, 1, 1, 1);
  g.outputs = add_loop(g, outer,
                       {g.add_input("s", f32({3})), g.add_input("rows", f32({11, 9, 3})),
                        g.add_input("x", f32({10, 3})), g.add_input("w", f32({3}))},
                       repeat);
  expect_right(g);
  EXPECT_EQ(repeats(compile_graph(g, {})), 3U);
}

}  // namespace
}  // namespace tw::driver::test
