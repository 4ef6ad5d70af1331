// Loops for tests: bodies of a few operators, and graphs around them.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/repeat.h"
#include "tests/graph/sample.h"

namespace tw::graph::test {

/// A loop of `turns` turns that keeps what the body's outputs are: of the carried ones two rows, of the others all.
inline Repeat turns_of(int64_t turns, size_t carried, size_t scanned, size_t made) {
  Repeat repeat{.turns = turns, .carried = carried, .scanned = scanned};
  repeat.rows.assign(carried, std::min<int64_t>(turns, 2));
  repeat.rows.resize(carried + made, turns);
  repeat.inputs_backwards.assign(scanned, 0);
  repeat.outputs_backwards.assign(carried + made, 0);
  return repeat;
}

/// Appends the loop; its outputs.
inline std::vector<ValueId> add_loop(Graph& g, Graph body, std::vector<ValueId> inputs, const Repeat& repeat,
                                     const std::string& name = "loop") {
  return append_node(g, table(),
                     {.op = std::string(kRepeat),
                      .name = name,
                      .attrs = attrs_of(repeat),
                      .inputs = std::move(inputs),
                      .outputs = {},
                      .body = std::make_shared<const Graph>(std::move(body))});
}

/// Row `row` of `x`, without its first axis.
inline ValueId row_of(Graph& g, ValueId x, int64_t row) {
  Shape extents = g.value(x).type.shape;
  std::vector<int64_t> starts(extents.size(), 0);
  const std::vector<int64_t> steps(extents.size(), 1);
  starts[0] = row;
  extents[0] = 1;
  const ValueId cut = add(g, "slice", {x}, {{"starts", starts}, {"steps", steps}, {"extents", extents}});
  return add(g, "reshape", {cut}, {{"shape", Shape(extents.begin() + 1, extents.end())}});
}
/// A carried value after the last turn.
inline ValueId last_of(Graph& g, const std::vector<ValueId>& outputs, const Repeat& repeat, size_t carried = 0) {
  return row_of(g, outputs.at(carried), repeat.output_row(carried, repeat.turns - 1));
}

/// h = tanh(h w + x) of h [n], a row x [n] and w [n], which is the same in every turn; h x is made besides.
inline Graph cell_body(int64_t n) {
  Graph g;
  g.name = "cell";
  const ValueId h = g.add_input("h", f32({n})), x = g.add_input("x", f32({n})), w = g.add_input("w", f32({n}));
  const ValueId next = add(g, "tanh", {add(g, "add", {add(g, "mul", {h, w}), x})});
  g.outputs = {next, add(g, "mul", {h, x}, {}, "made")};
  return g;
}

/// Around it: inputs h [n], x [turns, n] and w [n]; outputs h after the last turn and both stacks.
inline Graph cell_model(const Repeat& repeat, int64_t n) {
  Graph g;
  g.name = "cells";
  const ValueId h = g.add_input("h", f32({n})), x = g.add_input("x", f32({repeat.turns, n})),
                w = g.add_input("w", f32({n}));
  const std::vector<ValueId> made = add_loop(g, cell_body(n), {h, x, w}, repeat);
  g.outputs = {last_of(g, made, repeat), made[0], made[1]};
  return g;
}

/// Of `turns` turns, each of which runs the cell `inner` times from a row on and adds what it leaves to the carried
/// value. The inner loop reads what the outer one carries where `reads_carried`.
struct Nested {
  int64_t outer = 3, inner = 4, n = 3;
  bool reads_carried = false;
};
inline Graph nested_body(const Nested& of) {
  Graph g;
  g.name = "outer";
  const ValueId s = g.add_input("s", f32({of.n})), row = g.add_input("row", f32({of.n})),
                x = g.add_input("xs", f32({of.inner, of.n})), w = g.add_input("ws", f32({of.n}));
  const Repeat repeat = turns_of(of.inner, 1, 1, 1);
  const std::vector<ValueId> made = add_loop(g, cell_body(of.n), {of.reads_carried ? s : row, x, w}, repeat, "inner");
  const ValueId last = last_of(g, made, repeat);
  g.outputs = {add(g, "add", {s, last}), add(g, "mul", {made[1], w}, {}, "scaled")};
  return g;
}
inline Graph nested_model(const Nested& of) {
  Graph g;
  g.name = "nested";
  const ValueId s = g.add_input("first", f32({of.n})), rows = g.add_input("rows", f32({of.outer, of.n})),
                x = g.add_input("x", f32({of.inner, of.n})), w = g.add_input("w", f32({of.n}));
  const Repeat repeat = turns_of(of.outer, 1, 1, 1);
  const std::vector<ValueId> made = add_loop(g, nested_body(of), {s, rows, x, w}, repeat);
  g.outputs = {last_of(g, made, repeat), made[1]};
  return g;
}

}  // namespace tw::graph::test
