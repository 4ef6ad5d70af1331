// On GPUs a turn's rows begin where whole accesses may; elsewhere nothing changes.
#include <gtest/gtest.h>

#include "tests/graph/loops.h"
#include "tests/transform/graph_tools.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

using graph::Graph;
using graph::Repeat;
using graph::ValueId;
using graph::test::add;
using graph::test::add_loop;
using graph::test::turns_of;

Graph aligned(const Graph& g, DeviceKind kind) {
  TransformContext context = testing::context();
  context.target.kind = kind;
  Graph out = align_rows(g, context);
  graph::verify(out, context.ops);
  return out;
}

// h = h op x, with x and h made besides; what is the same in every turn is a row, too.
Graph loop_over(const TensorType& row, int64_t turns, const Repeat& repeat) {
  const std::string op = row.type.is_bool() ? "or" : "max";
  Graph body;
  const ValueId h = body.add_input("h", row), x = body.add_input("x", row), same = body.add_input("same", row);
  const ValueId next = add(body, op, {add(body, op, {h, x}), same});
  body.outputs = {next, x, add(body, "identity", {h})};
  Graph g;
  TensorType stacked = row;
  stacked.shape.insert(stacked.shape.begin(), turns);
  g.outputs = add_loop(g, body, {g.add_input("h", row), g.add_input("x", stacked), g.add_input("same", row)}, repeat);
  return g;
}

bool is_whole(const TensorType& row) { return row.bytes() % 16 == 0; }

void expect_aligned(const Graph& g) {
  const graph::Node& loop = *std::ranges::find(g.nodes, graph::kRepeat, &graph::Node::op);
  const Repeat repeat = graph::repeat_of(loop);
  for (size_t k = 0; k < repeat.carried + repeat.scanned; ++k)
    EXPECT_TRUE(is_whole(loop.body->value(loop.body->inputs[k]).type)) << "input " << k;
  for (const ValueId out : loop.body->outputs) EXPECT_TRUE(is_whole(loop.body->value(out).type));
}

const std::vector<Shape> kRows = {{}, {1}, {3}, {5}, {2, 3}, {7, 1}, {0}};

TEST(AlignRows, ResultsAreTheSame) {
  for (const DataType type : {DataType::f32(), DataType::i64(), DataType::boolean(), DataType::f16()}) {
    for (const Shape& shape : kRows) {
      for (const int64_t turns : {1, 4, 9}) {
        SCOPED_TRACE(to_string(TensorType{type, shape}) + " " + std::to_string(turns));
        Repeat repeat = turns_of(turns, 1, 1, 2);
        repeat.inputs_backwards = {1};
        repeat.outputs_backwards = {0, 1, 0};
        const Graph g = loop_over({type, shape}, turns, repeat);
        const Graph after = aligned(g, DeviceKind::kCuda);
        expect_aligned(after);
        testing::expect_same_function(g, after, 0);
        EXPECT_EQ(graph::to_string(aligned(after, DeviceKind::kCuda)), graph::to_string(after)) << "once is enough";
      }
    }
  }
}

TEST(AlignRows, OfKeptRows) {
  Repeat repeat = turns_of(9, 1, 1, 2);
  repeat.rows[0] = 9;
  repeat.outputs_backwards = {1, 0, 0};
  const Graph g = loop_over({DataType::f32(), {5}}, 9, repeat);
  const Graph after = aligned(g, DeviceKind::kCuda);
  expect_aligned(after);
  testing::expect_same_function(g, after, 0);
}

TEST(AlignRows, LeavesWholeAccesses) {
  for (const TensorType& row : {TensorType{DataType::f32(), {4}}, TensorType{DataType::f32(), {3, 8}},
                                TensorType{DataType::i64(), {2}}, TensorType{DataType::boolean(), {16}}}) {
    const Graph g = loop_over(row, 9, turns_of(9, 1, 1, 2));
    EXPECT_EQ(graph::to_string(aligned(g, DeviceKind::kCuda)), graph::to_string(graph::compact(g)));
  }
}

TEST(AlignRows, LeavesCpusAlone) {
  const Graph g = loop_over({DataType::f32(), {3}}, 9, turns_of(9, 1, 1, 2));
  EXPECT_EQ(graph::to_string(aligned(g, DeviceKind::kCpu)), graph::to_string(g));
}

// What is the same in every turn lies where it always does.
TEST(AlignRows, LeavesWhatDoesNotMove) {
  Graph body;
  const ValueId h = body.add_input("h", graph::test::f32({4})), w = body.add_input("w", graph::test::f32({3, 1}));
  body.outputs = {add(body, "add", {h, add(body, "reduce_sum", {w}, {{"keepdims", int64_t{0}}})})};
  Graph g;
  g.outputs = add_loop(g, body, {g.add_input("h", graph::test::f32({4})), g.add_input("w", graph::test::f32({3, 1}))},
                       turns_of(9, 1, 0, 0));
  EXPECT_EQ(graph::to_string(aligned(g, DeviceKind::kCuda)), graph::to_string(graph::compact(g)));
}

}  // namespace
}  // namespace tw::transform
