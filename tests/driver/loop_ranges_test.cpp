// Dimensions with a range that turns of loops carry along, or are: batches and steps of recurrences.
#include <gtest/gtest.h>

#include "artefact/verify.h"
#include "tests/driver/loop_models.h"
#include "tests/driver/range_models.h"

namespace tw::driver::test {
namespace {

using artefact::Session;
using tw::testing::ModelBuilder;
using tw::testing::set_graph;
using tw::testing::set_int;
using tw::testing::set_string;

constexpr int64_t kInputs = 6, kHidden = 9, kSteps = 11;

struct Cell {
  std::string op;
  int64_t gates;
  std::string direction = "forward";
  bool has_state = true, has_lengths = false;
  tw::testing::Dim steps = kSteps;
};

// A batch first, as exporters leave it: transposed, and the first state made of the shape.
Model recurrent(const Cell& cell) {
  return [cell](ModelBuilder& m) {
    const int64_t directions = cell.direction == "bidirectional" ? 2 : 1, rows = cell.gates * kHidden;
    m.input("x", {std::string("batch"), cell.steps, kInputs});
    m.floats("w", {directions, rows, kInputs}, numbers(directions * rows * kInputs, 1));
    m.floats("r", {directions, rows, kHidden}, numbers(directions * rows * kHidden, 2));
    m.floats("b", {directions, 2 * rows}, numbers(directions * 2 * rows, 3));
    tw::testing::set_ints(m.node("Transpose", {"x"}, {"xt"}), "perm", {1, 0, 2});
    std::string lengths, h;
    if (cell.has_lengths) m.input(lengths = "lengths", {std::string("batch")}, onnx::TensorProto::INT32);
    if (cell.has_state) {
      m.ints("zero", {0});
      m.ints("directions", {directions});
      m.ints("hidden", {kHidden});
      m.node("Shape", {"x"}, {"shape"});
      set_int(m.node("Gather", {"shape", "zero"}, {"batch"}), "axis", 0);
      set_int(m.node("Concat", {"directions", "batch", "hidden"}, {"of_state"}), "axis", 0);
      m.node("ConstantOfShape", {"of_state"}, {h = "h0"});
    }
    auto& node = m.node(cell.op, {"xt", "w", "r", "b", lengths, h}, {"y", "last"});
    set_int(node, "hidden_size", kHidden);
    set_string(node, "direction", cell.direction);
    m.output("y").output("last");
    tw::testing::set_ints(m.node("Transpose", {"y"}, {"yt"}), "perm", {2, 0, 1, 3});
    m.output("yt");
  };
}

void expect_batches(const Cell& cell) {
  SCOPED_TRACE(cell.op + " " + cell.direction);
  const Model model = recurrent(cell);
  Session ranged = session_of(compile_dims(model, {"batch=1..11"}));
  for (const int64_t n : {11, 1, 8, 9}) expect_like_exact(model, ranged, {fmt::format("batch={}", n)}, n);
}

TEST(LoopRanges, BatchesOfRecurrences) {
  expect_batches({"RNN", 1, "reverse"});
  expect_batches({"GRU", 3, "forward"});
  expect_batches({"GRU", 3, "forward", /*has_state=*/false});
  expect_batches({"LSTM", 4, "bidirectional", /*has_state=*/true, /*has_lengths=*/true});
}

// Few turns are unrolled.
TEST(LoopRanges, BatchesOfFewTurns) {
  const Model model = recurrent({.op = "GRU", .gates = 3, .steps = int64_t{3}});
  Session ranged = session_of(compile_dims(model, {"batch=1..3"}));
  for (const int64_t n : {3, 2, 1}) expect_like_exact(model, ranged, {fmt::format("batch={}", n)}, n);
}

// y alone: other outputs have the batch in another place.
TEST(LoopRanges, MoreRowsThanThereIsRoomForRunInParts) {
  const Model model = [](ModelBuilder& m) {
    recurrent({"LSTM", 4})(m);
    m.graph().clear_output();
    m.output("yt");
  };
  Session ranged = session_of(compile_dims(model, {"batch=1..4"}));
  for (const int64_t n : {5, 11}) expect_like_exact(model, ranged, {fmt::format("batch={}", n)}, n);
}

// The last state, too, which is that of the last step that is there, or of the first.
void expect_steps(Cell cell, const std::vector<std::string>& dims) {
  SCOPED_TRACE(cell.op + " " + cell.direction);
  cell.steps = std::string("time");
  const Model model = recurrent(cell);
  std::vector<std::string> ranges = dims;
  ranges.push_back("time=1..20");
  Session ranged = session_of(compile_dims(model, ranges));
  for (const int64_t n : {20, 1, 2, 7, 8, 9, 13}) {
    expect_like_exact(model, ranged, {"batch=3", fmt::format("time={}", n)}, n);
  }
}

TEST(LoopRanges, StepsOfRecurrences) {
  expect_steps({"RNN", 1, "reverse"}, {"batch=3"});
  expect_steps({"GRU", 3, "forward"}, {"batch=1..3"});
  expect_steps({"LSTM", 4, "bidirectional"}, {"batch=3"});
  expect_steps({"LSTM", 4, "bidirectional", /*has_state=*/true, /*has_lengths=*/true}, {"batch=3"});
}

// Beyond its end the rows of a sequence hold nothing: those that take the others' place may be infinite.
TEST(LoopRanges, TheLastOfAllStepsIsTheLastThatThereIs) {
  const Model model = [](ModelBuilder& m) {
    recurrent({.op = "GRU", .gates = 3, .steps = std::string("time")})(m);
    m.ints("end", {-1});
    set_int(m.node("Gather", {"yt", "end"}, {"of_end"}), "axis", 1);
    m.node("Exp", {"yt"}, {"e"});
    tw::testing::set_ints(m.node("ReduceMean", {"e"}, {"mean"}), "axes", {1});
    m.output("of_end").output("mean");
  };
  Session ranged = session_of(compile_dims(model, {"batch=2", "time=1..12"}));
  for (const int64_t n : {12, 1, 2, 9, 8}) expect_like_exact(model, ranged, {"batch=2", fmt::format("time={}", n)}, n);
}

// A turn takes the mean of its batch away, and divides by how far it is spread.
void scan_with_means(ModelBuilder& m) {
  m.input("s", {std::string("n"), int64_t{5}}).input("x", {int64_t{12}, std::string("n"), int64_t{5}});
  auto& node = m.node("Scan", {"s", "x"}, {"last", "all"});
  set_int(node, "num_scan_inputs", 1);
  auto& body = set_graph(node, "body");
  for (const char* name : {"a", "e"})
    ModelBuilder::value(body.add_input(), name, {std::string("n"), int64_t{5}}, onnx::TensorProto::FLOAT);
  for (const char* name : {"next", "out"})
    ModelBuilder::value(body.add_output(), name, {std::string("n"), int64_t{5}}, onnx::TensorProto::FLOAT);
  auto& nodes = *body.mutable_node();
  ModelBuilder::add_node(nodes, "Add", {"a", "e"}, {"sum"});
  tw::testing::set_ints(ModelBuilder::add_node(nodes, "ReduceMean", {"sum"}, {"mean"}), "axes", {0});
  ModelBuilder::add_node(nodes, "Sub", {"sum", "mean"}, {"moved"});
  tw::testing::set_ints(ModelBuilder::add_node(nodes, "ReduceSumSquare", {"moved"}, {"squares"}), "axes", {0});
  ModelBuilder::add_node(nodes, "Sqrt", {"squares"}, {"size"});
  ModelBuilder::add_node(nodes, "Div", {"moved", "size"}, {"next"});
  ModelBuilder::add_node(nodes, "Mul", {"e", "next"}, {"out"});
  m.output("last").output("all");
}

TEST(LoopRanges, TurnsThatSumOverTheRows) {
  Session ranged = session_of(compile_dims(scan_with_means, {"n=2..11"}));
  for (const int64_t n : {11, 2, 3, 8, 9}) expect_like_exact(scan_with_means, ranged, {fmt::format("n={}", n)}, n);
}

// As many turns as there are rows, of which none is read.
TEST(LoopRanges, TurnsThatOnlyCountRows) {
  const Model model = [](ModelBuilder& m) {
    m.input("x", {std::string("n"), int64_t{3}}).input("s", {int64_t{3}});
    m.ints("zero", {0});
    m.node("Squeeze", {"zero"}, {"first"});
    m.node("Shape", {"x"}, {"shape"});
    m.node("Gather", {"shape", "first"}, {"turns"});
    auto& body = set_graph(m.node("Loop", {"turns", "", "s"}, {"last"}), "body");
    for (const char* name : {"i", "go", "before"}) body.add_input()->set_name(name);
    for (const char* name : {"goes", "after"}) body.add_output()->set_name(name);
    ModelBuilder::add_node(*body.mutable_node(), "Identity", {"go"}, {"goes"});
    ModelBuilder::add_node(*body.mutable_node(), "Tanh", {"before"}, {"after"});
    m.node("Relu", {"x"}, {"y"});
    m.output("last").output("y");
  };
  Session ranged = session_of(compile_dims(model, {"n=2..12"}));
  for (const int64_t n : {12, 2, 3, 8, 9, 11}) expect_like_exact(model, ranged, {fmt::format("n={}", n)}, n);
}

TEST(LoopRanges, EntriesAreVerified) {
  const auto expect_verified = [](const Compiled& compiled, const std::vector<Shape>& shapes) {
    std::vector<artefact::Array> inputs;
    for (const Shape& shape : shapes) inputs.push_back(array_of({DataType::f32(), shape}, std::ssize(inputs)));
    const artefact::VerifyReport report = artefact::verify_artefact(artefact_bytes(compiled), nullptr, inputs, {});
    EXPECT_TRUE(report.ok()) << shapes[0][0] << ": " << faults(report);
  };
  const Compiled lstm = compile_dims(recurrent({"LSTM", 4}), {"batch=1..11"});
  const Compiled scan = compile_dims(scan_with_means, {"n=2..11"});
  for (const int64_t n : {11, 10, 3}) {
    expect_verified(lstm, {{n, kSteps, kInputs}});
    expect_verified(scan, {{n, 5}, {12, n, 5}});
  }
}

TEST(LoopRanges, ATurnThatMixesRowsIsRefusedByName) {
  expect_refused(
      [](ModelBuilder& m) {
        scan_with_means(m);
        auto& nodes = *m.graph().mutable_node(0)->mutable_attribute(1)->mutable_g()->mutable_node();
        nodes.Mutable(6)->set_op_type("Gather");
        nodes.Mutable(6)->set_input(1, "end");
        nodes.Mutable(6)->set_output(0, "later");
        ModelBuilder::add_node(nodes, "Add", {"e", "later"}, {"out"});
        m.ints("end", {-2});
      },
      {"n=8..16"}, {"--dim n=8..16: ", "'node_last/turn/node_out' (gather)", "List the sizes instead: --dim n=8,16"});
}

}  // namespace
}  // namespace tw::driver::test
