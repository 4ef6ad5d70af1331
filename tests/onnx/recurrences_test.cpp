// RNN, GRU and LSTM are a loop for each direction, whatever the number of their steps.
#include <gtest/gtest.h>

#include "tests/onnx/loop_check.h"

namespace tw::frontend {
namespace {

using graph::Graph;
using graph::RefTensor;
using namespace testing;

constexpr int64_t kSteps = 20, kBatch = 3, kInputs = 4, kHidden = 5;

struct Cell {
  std::string op;
  int64_t gates;
  std::string direction = "forward";
  bool has_lengths = false;
  int64_t layout = 0;
};

ModelBuilder recurrent(const Cell& cell) {
  const int64_t directions = cell.direction == "bidirectional" ? 2 : 1;
  const auto shape = [&](int64_t first, int64_t second, int64_t last) {
    return cell.layout == 0 ? std::vector<Dim>{first, second, last} : std::vector<Dim>{second, first, last};
  };
  ModelBuilder m(14);
  m.input("x", shape(kSteps, kBatch, kInputs)).input("h0", shape(directions, kBatch, kHidden)).output("y").output("h");
  const int64_t rows = cell.gates * kHidden;
  m.floats("w", {directions, rows, kInputs}, weights(directions * rows * kInputs, 1));
  m.floats("r", {directions, rows, kHidden}, weights(directions * rows * kHidden, 2));
  m.floats("b", {directions, 2 * rows}, weights(directions * 2 * rows, 3));
  std::string lengths;
  if (cell.has_lengths) {
    lengths = "lengths";
    m.input(lengths, {kBatch}, onnx::TensorProto::INT32);
  }
  auto& node = m.node(cell.op, {"x", "w", "r", "b", lengths, "h0"}, {"y", "h"});
  set_int(node, "hidden_size", kHidden);
  set_int(node, "layout", cell.layout);
  set_string(node, "direction", cell.direction);
  if (cell.op != "LSTM") return m;
  node.add_output("c");
  m.output("c");
  return m;
}

TEST(Recurrences, AreOneLoopADirection) {
  for (const auto& [op, gates] : {std::pair<std::string, int64_t>{"RNN", 1}, {"GRU", 3}, {"LSTM", 4}}) {
    for (const char* direction : {"forward", "reverse", "bidirectional"}) {
      for (const bool has_lengths : {false, true}) {
        SCOPED_TRACE(op + " " + direction + (has_lengths ? " with lengths" : ""));
        const Graph g = import_model(recurrent({op, gates, direction, has_lengths})).graph;
        EXPECT_EQ(loops(g), direction == std::string("bidirectional") ? 2 : 1);
        EXPECT_EQ(graph::repeat_of(first_loop(g)).turns, kSteps);
        std::vector<RefTensor> inputs = inputs_of(g);
        if (has_lengths) inputs.back().ints = {20, 1, 7};
        expect_same_unrolled(g, inputs);
      }
    }
  }
}

TEST(Recurrences, BatchFirst) {
  for (const char* direction : {"forward", "bidirectional"}) {
    const Graph g = import_model(recurrent({.op = "LSTM", .gates = 4, .direction = direction, .layout = 1})).graph;
    EXPECT_EQ(g.value(g.outputs[0]).type.shape[0], kBatch);
    expect_same_unrolled(g);
  }
}

// Beyond a sequence's end rows are 0, and the last state is that of its end.
TEST(Recurrences, EndWithTheirSequences) {
  const Graph g = import_model(recurrent({"GRU", 3, "reverse", true})).graph;
  std::vector<RefTensor> inputs = inputs_of(g);
  inputs.back().ints = {20, 1, 7};
  const std::vector<RefTensor> outputs = outputs_of(g, inputs);
  for (int64_t t = 0; t < kSteps; ++t) {
    const RefTensor row = outputs[0].row(t).row(0);
    for (int64_t b = 0; b < kBatch; ++b) {
      const bool is_zero = row.row(b).floats == std::vector<double>(kHidden, 0);
      EXPECT_EQ(is_zero, t >= inputs.back().ints[static_cast<size_t>(b)]) << t << " " << b;
    }
  }
  EXPECT_EQ(outputs[1].row(0).floats, outputs[0].row(0).row(0).floats) << "it ends with row 0";
}

TEST(Recurrences, GraphsAreAsLargeForManySteps) {
  const auto nodes = [](int64_t steps) {
    ModelBuilder m = recurrent({"GRU", 3});
    m.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_value(
        steps);
    const Graph g = import_model(m).graph;
    return g.nodes.size() + first_loop(g).body->nodes.size();
  };
  EXPECT_EQ(nodes(20), nodes(5000));
}

}  // namespace
}  // namespace tw::frontend
