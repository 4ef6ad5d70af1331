// What the converters make of single operators: attributes, absent inputs, old opsets.
#include "frontend/onnx/converters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/onnx/import_model.h"

namespace tw::frontend {
namespace {

using graph::RefTensor;
using namespace testing;

// Slices of the data that the updates replace in few runs: no element is looked up.
TEST(Scatter, SlicesAreConcatenated) {
  ModelBuilder m;
  m.input("x", {int64_t{2}, int64_t{3}, int64_t{2}}).input("u", {int64_t{2}, int64_t{2}}).output("y");
  m.ints("flat", {0, 1, -2, 2});
  m.ints("shape", {2, 2});
  m.node("Reshape", {"flat", "shape"}, {"at"});
  m.node("ScatterND", {"x", "at", "u"}, {"y"});
  EXPECT_EQ(count(import_model(m).graph, "gather"), 0);
  const RefTensor y =
      run(m, {tensor({2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), tensor({2, 2}, {20, 21, 22, 23})});
  EXPECT_EQ(y.floats, (std::vector<double>{0, 1, 20, 21, 22, 23, 6, 7, 8, 9, 10, 11}));
}

// Every other row: too many runs to concatenate.
TEST(Scatter, RowsAreGathered) {
  ModelBuilder m;
  m.input("x", {int64_t{40}, int64_t{2}}).input("u", {int64_t{20}, int64_t{2}}).output("y");
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < 20; ++i) rows.push_back(2 * i);
  m.ints("flat", rows);
  m.ints("shape", {20, 1});
  m.node("Reshape", {"flat", "shape"}, {"at"});
  m.node("ScatterND", {"x", "at", "u"}, {"y"});
  EXPECT_EQ(count(import_model(m).graph, "gather"), 1);
  const RefTensor y =
      run(m, {tensor({40, 2}, std::vector<double>(80, 1)), tensor({20, 2}, std::vector<double>(40, 5))});
  for (size_t i = 0; i < 80; ++i) EXPECT_EQ(y.floats[i], i / 2 % 2 == 0 ? 5 : 1) << i;
}

// What is not updated meets the largest number of the type, which is not one of a double's.
TEST(Scatter, MinimaOfIntegersKeepTheOtherElements) {
  for (const auto& [kind, scalar] : {std::pair{onnx::TensorProto::INT64, ScalarType::kI64},
                                     {onnx::TensorProto::UINT64, ScalarType::kU64},
                                     {onnx::TensorProto::INT32, ScalarType::kI32}}) {
    const DataType type(scalar);
    ModelBuilder m(18);
    m.input("x", {int64_t{4}}, kind).input("u", {int64_t{2}}, kind).output("y", kind);
    m.ints("at", {1, 2});
    set_string(m.node("ScatterElements", {"x", "at", "u"}, {"y"}), "reduction", "min");
    const RefTensor y = run(m, {{{type, {4}}, {}, {5, 6, 7, 8}}, {{type, {2}}, {}, {2, 9}}});
    EXPECT_EQ(y.ints, (std::vector<int64_t>{5, 2, 7, 8})) << to_string(type);
  }
}

// `indices` as a constant, or as an input: the same elements, whatever the reduction.
RefTensor scattered(const std::string& op, const std::string& reduction, const RefTensor& at, const RefTensor& updates,
                    int64_t axis, bool at_run_time) {
  ModelBuilder m(18);
  const auto dims = [](const Shape& s) { return std::vector<Dim>(s.begin(), s.end()); };
  m.input("x", dims({4, 3, 5})).input("u", dims(updates.type.shape)).output("y");
  RefTensor x = tensor({4, 3, 5}, {});
  for (int64_t i = 0; i < 60; ++i) x.floats.push_back(static_cast<double>(i % 13) - 4);
  std::vector<RefTensor> inputs = {x, updates};
  if (at_run_time) {
    m.input("at", dims(at.type.shape), onnx::TensorProto::INT64);
    inputs.push_back(at);
  } else {
    m.ints("flat", at.ints);
    m.ints("shape", at.type.shape);
    m.node("Reshape", {"flat", "shape"}, {"at"});
  }
  onnx::NodeProto& node = m.node(op, {"x", "at", "u"}, {"y"});
  set_string(node, "reduction", reduction);
  if (op == "ScatterElements") set_int(node, "axis", axis);
  return run(m, inputs);
}

TEST(Scatter, IndicesMayComeAtRunTime) {
  for (const char* reduction : {"none", "add", "mul", "max", "min"}) {
    SCOPED_TRACE(reduction);
    const auto same = [&](const char* op, const Shape& shape, const std::vector<int64_t>& indices, const Shape& updates,
                          int64_t axis) {
      const RefTensor at{{DataType::i64(), shape}, {}, indices};
      RefTensor u = tensor(updates, {});
      for (int64_t i = 0; i < num_elements(updates); ++i) u.floats.push_back(static_cast<double>(i % 7) - 2);
      EXPECT_EQ(scattered(op, reduction, at, u, axis, true).floats,
                scattered(op, reduction, at, u, axis, false).floats);
    };
    same("ScatterElements", {3, 1, 2}, {0, -1, 0, 3, 2, 2}, {3, 1, 2}, 0);
    same("ScatterElements", {2, 1, 6}, {0, 1, 4, 4, -5, 0, 1, 1, 1, -1, 2, 3}, {2, 1, 6}, -1);
    same("ScatterND", {3, 1}, {2, -4, 2}, {3, 3, 5}, 0);
    same("ScatterND", {2, 2, 2}, {0, 1, -1, -3, 0, 1, 2, 2}, {2, 2, 5}, 0);
    same("ScatterND", {2, 3}, {3, 2, 4, 3, 2, 4}, {2}, 0);
  }
}

// NaN is the largest number, as for ArgMax and ReduceMax; several of them are in the order of their places.
TEST(TopK, NanIsTheLargest) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> x = {1, nan, 3, 3, -2, nan, std::numeric_limits<double>::infinity(), -0.0, 0};
  for (const auto& [largest, order] : {std::pair{1, std::vector<int64_t>{1, 5, 6, 2, 3, 0, 7, 8, 4}},
                                       std::pair{0, std::vector<int64_t>{4, 7, 8, 0, 2, 3, 6, 1, 5}}}) {
    for (const int64_t k : {2, 9}) {
      ModelBuilder m;
      m.input("x", {int64_t{1}, int64_t{9}}).output("i", onnx::TensorProto::INT64).output("v");
      m.ints("k", {k});
      set_int(m.node("TopK", {"x", "k"}, {"v", "i"}), "largest", largest);
      EXPECT_EQ(run(m, {tensor({1, 9}, x)}).ints, std::vector<int64_t>(order.begin(), order.begin() + k));
    }
  }
}

TEST(OldOpsets, BinaryOperatorsBroadcastOnDemand) {
  ModelBuilder m(6);
  m.input("x", {int64_t{1}, int64_t{2}, int64_t{2}}).output("y");
  m.floats("b", {2}, {10, 20});
  auto& node = m.node("Add", {"x", "b"}, {"y"});
  set_int(node, "broadcast", 1);
  set_int(node, "axis", 1);
  EXPECT_EQ(run(m, {tensor({1, 2, 2}, {1, 2, 3, 4})}).floats, (std::vector<double>{11, 12, 23, 24}));
}

TEST(OldOpsets, SoftmaxFlattensBeforeOpset13) {
  for (const int64_t opset : {11, 13}) {
    ModelBuilder m(opset);
    m.input("x", {int64_t{1}, int64_t{2}, int64_t{2}}).output("y");
    set_int(m.node("Softmax", {"x"}, {"y"}), "axis", 1);
    const RefTensor y = run(m, {tensor({1, 2, 2}, {0, 0, 0, 0})});
    EXPECT_EQ(y.floats, std::vector<double>(4, opset < 13 ? 0.25 : 0.5));
  }
}

TEST(OldOpsets, ListsThatBecameInputsAreAttributes) {
  ModelBuilder m(9);
  m.input("x", {int64_t{2}, int64_t{1}, int64_t{4}}).output("y");
  set_ints(m.node("Squeeze", {"x"}, {"a"}), "axes", {1});
  auto& slice = m.node("Slice", {"a"}, {"b"});
  set_ints(slice, "starts", {1, 0});
  set_ints(slice, "ends", {3, 1});
  set_ints(slice, "axes", {1, 0});
  set_ints(m.node("Pad", {"b"}, {"c"}), "pads", {0, 1, 0, -1});
  auto& clip = m.node("Clip", {"c"}, {"d"});
  set_float(clip, "max", 2.5F);
  set_ints(m.node("ReduceSum", {"d"}, {"y"}), "axes", {0});
  EXPECT_EQ(run(m, {tensor({2, 1, 4}, {1, 2, 3, 4, 5, 6, 7, 8})}).floats, (std::vector<double>{0, 2}));
}

TEST(Shapes, AutomaticPadsGoToTheEndOrTheBeginning) {
  for (const std::string mode : {"SAME_UPPER", "SAME_LOWER"}) {
    ModelBuilder m;
    m.input("x", {int64_t{1}, int64_t{1}, int64_t{4}}).output("y");
    m.floats("w", {1, 1, 2}, {1, 10});
    set_string(m.node("Conv", {"x", "w"}, {"y"}), "auto_pad", mode);
    const std::vector<double> expected =
        mode == "SAME_UPPER" ? std::vector<double>{21, 32, 43, 4} : std::vector<double>{10, 21, 32, 43};
    EXPECT_EQ(run(m, {tensor({1, 1, 4}, {1, 2, 3, 4})}).floats, expected) << mode;
  }
}

TEST(Shapes, WrappedPadsRepeatWhatIsLeft) {
  ModelBuilder m(19);
  m.input("x", {int64_t{4}}).output("y");
  m.ints("pads", {2, -1});
  set_string(m.node("Pad", {"x", "pads"}, {"y"}), "mode", "wrap");
  EXPECT_EQ(run(m, {tensor({4}, {0, 1, 2, 3})}).floats, (std::vector<double>{1, 2, 0, 1, 2}));
}

// One step with all weights and biases 0: every gate is what its activation makes of 0, for both directions.
TEST(Recurrent, BothDirectionsHaveTheUsualActivations) {
  for (const auto& [op, gates, expected] : {std::tuple{"RNN", 1, 0.0}, {"GRU", 3, 0.5}, {"LSTM", 4, 0.0}}) {
    ModelBuilder m;
    m.input("x", {int64_t{1}, int64_t{1}, int64_t{2}}).output("y").output("h");
    m.floats("w", {2, gates * 1, 2}, std::vector<float>(4 * gates, 0));
    m.floats("r", {2, gates * 1, 1}, std::vector<float>(2 * gates, 0));
    m.floats("h0", {2, 1, 1}, {1, 1});
    auto& node = m.node(op, {"x", "w", "r", "", "", "h0"}, {"y", "h"});
    set_int(node, "hidden_size", 1);
    set_string(node, "direction", "bidirectional");
    const RefTensor y = run(m, {tensor({1, 1, 2}, {3, 4})});
    EXPECT_EQ(y.type.shape, (Shape{1, 2, 1, 1})) << op;
    EXPECT_EQ(y.floats, (std::vector<double>{expected, expected})) << op;
  }
}

std::set<std::string> different(const graph::Graph& g, const std::string& op) {
  std::set<std::string> seen;
  for (const graph::Node& node : g.nodes) {
    if (node.op != op) continue;
    std::string text = to_string(g.value(node.inputs[0]).type);
    for (const char* key : {"starts", "extents"}) {
      for (const int64_t x : node.ints_attr(key)) text += fmt::format(" {}", x);
    }
    seen.insert(std::move(text));
  }
  return seen;
}

// y = relu(x): every row comes from where it should, whatever block it is cut from. A kernel for each of a thousand
// slices, or one that joins a thousand rows, would take longer than the model is worth.
TEST(Recurrent, LongSequencesAreCutAndJoinedInBlocks) {
  for (const auto& [steps, slices] : {std::pair<int64_t, size_t>{32, 32}, {33, 34}, {1025, 66}, {1100, 100}}) {
    for (const char* direction : {"forward", "reverse"}) {
      ModelBuilder m;
      m.input("x", {steps, int64_t{1}, int64_t{1}}).output("y");
      m.floats("w", {1, 1, 1}, {1});
      m.floats("r", {1, 1, 1}, {0});
      auto& node = m.node("RNN", {"x", "w", "r"}, {"y"});
      set_string(node, "direction", direction);
      auto* activations = node.add_attribute();
      activations->set_name("activations");
      activations->set_type(onnx::AttributeProto::STRINGS);
      activations->add_strings("Relu");
      const graph::Graph g = import_model(m).graph;
      EXPECT_LE(different(g, "slice").size(), slices) << steps;
      for (const graph::Node& n : g.nodes) {
        if (n.op == "concat") EXPECT_LE(n.inputs.size(), 256U);
      }
      std::vector<double> x;
      for (int64_t t = 0; t < steps; ++t) x.push_back(static_cast<double>(t % 2 == 0 ? t : -t));
      const RefTensor y = run(m, {tensor({steps, 1, 1}, x)});
      EXPECT_EQ(y.type.shape, (Shape{steps, 1, 1, 1}));
      for (double& v : x) v = std::max(v, 0.0);
      EXPECT_EQ(y.floats, x) << steps << " " << direction;
    }
  }
}

// The middle axis of three.
TEST(ControlFlow, ScansCutTheAxisThatTheyAreTold) {
  constexpr int64_t kTrips = 70;
  ModelBuilder m;
  m.input("s", {int64_t{2}, int64_t{3}}).input("x", {int64_t{2}, kTrips, int64_t{3}}).output("last").output("all");
  auto& node = m.node("Scan", {"s", "x"}, {"last", "all"});
  set_int(node, "num_scan_inputs", 1);
  set_ints(node, "scan_input_axes", {1});
  set_ints(node, "scan_output_axes", {2});
  set_ints(node, "scan_output_directions", {1});
  auto& body = set_graph(node, "body");
  for (const char* name : {"s", "e"})
    ModelBuilder::value(body.add_input(), name, {int64_t{2}, int64_t{3}}, onnx::TensorProto::FLOAT);
  for (const char* name : {"next", "out"})
    ModelBuilder::value(body.add_output(), name, {int64_t{2}, int64_t{3}}, onnx::TensorProto::FLOAT);
  ModelBuilder::add_node(*body.mutable_node(), "Add", {"s", "e"}, {"next"});
  ModelBuilder::add_node(*body.mutable_node(), "Identity", {"e"}, {"out"});
  const graph::Graph g = import_model(m).graph;
  std::vector<double> x, sum(6, 0), reversed(6 * kTrips);
  for (int64_t i = 0; i < 2 * kTrips * 3; ++i) {
    x.push_back(static_cast<double>(i % 17));
    const int64_t row = i / (kTrips * 3), t = i / 3 % kTrips, column = i % 3;
    sum[static_cast<size_t>(row * 3 + column)] += x.back();
    reversed[static_cast<size_t>((row * 3 + column) * kTrips + kTrips - 1 - t)] = x.back();
  }
  const auto values = graph::evaluate(
      g, table(), {tensor({2, 3}, std::vector<double>(6, 0)), tensor({2, kTrips, 3}, x)}, graph::Rounding::kEachValue);
  EXPECT_EQ(values[g.outputs[0]].floats, sum);
  EXPECT_EQ(values[g.outputs[1]].type.shape, (Shape{2, 3, kTrips}));
  EXPECT_EQ(values[g.outputs[1]].floats, reversed);
}

TEST(Shapes, SplitLeavesTheRestToTheLastPart) {
  ModelBuilder m(18);
  m.input("x", {int64_t{7}}).output("a").output("b").output("c");
  set_int(m.node("Split", {"x"}, {"a", "b", "c"}), "num_outputs", 3);
  const graph::Graph g = import_model(m).graph;
  EXPECT_EQ(g.value(g.outputs[0]).type.shape, Shape{3});
  EXPECT_EQ(g.value(g.outputs[2]).type.shape, Shape{1});
}

struct SliceCase {
  int64_t start, end, step;
  std::vector<double> expected;
};

TEST(Shapes, SliceFollowsNumpy) {
  const std::vector<SliceCase> cases = {{0, 5, 2, {0, 2, 4}},
                                        {-2, INT64_MAX, 1, {3, 4}},
                                        {4, INT64_MIN, -2, {4, 2, 0}},
                                        {-1, -6, -1, {4, 3, 2, 1, 0}},
                                        {3, 1, 1, {}},
                                        {INT64_MIN, INT64_MAX, INT64_MAX, {0}},
                                        {INT64_MAX, INT64_MIN, INT64_MIN, {4}},
                                        {-9, -99, -1, {0}},  // a start is clamped to an element
                                        {1, -1, 1, {1, 2, 3}}};
  for (const SliceCase& s : cases) {
    ModelBuilder m;
    m.input("x", {int64_t{5}}).output("y");
    m.ints("start", {s.start});
    m.ints("end", {s.end});
    m.ints("axis", {-1});
    m.ints("step", {s.step});
    m.node("Slice", {"x", "start", "end", "axis", "step"}, {"y"});
    EXPECT_EQ(run(m, {tensor({5}, {0, 1, 2, 3, 4})}).floats, s.expected) << s.start << ":" << s.end << ":" << s.step;
  }
}

// Pivots that are not in their own row, and a column without any.
TEST(Det, FollowsTheDefinition) {
  ModelBuilder m;
  m.input("x", {int64_t{4}, int64_t{3}, int64_t{3}}).output("y");
  m.node("Det", {"x"}, {"y"});
  const RefTensor y = run(m, {tensor({4, 3, 3}, {0, 2, 1, 3, 0, 1, 1, 1, 0,  // by hand: 0*(0-1) - 2*(0-1) + 1*(3-0) = 5
                                                 0, 0, 2, 0, 3, 0, 4, 0, 0,  // odd permutation: -24
                                                 1, 2, 3, 2, 4, 6, 1, 0, 1,  // dependent rows: 0
                                                 0, 1, 2, 0, 3, 4, 0, 5, -6})});
  EXPECT_EQ(y.type.shape, Shape{4});
  const std::vector<double> want{5, -24, 0, 0};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(y.floats[i], want[i], 1e-5) << i;
}

TEST(Optional, InputsInTheMiddleMayBeAbsent) {
  ModelBuilder m;
  m.input("x", {int64_t{2}}).output("y");
  m.floats("top", {}, {1.5F});
  m.node("Clip", {"x", "", "top"}, {"y"});
  EXPECT_EQ(run(m, {tensor({2}, {-7, 7})}).floats, (std::vector<double>{-7, 1.5}));
}

TEST(Optional, OutputsAreMadeWhenNamed) {
  ModelBuilder m;
  m.input("x", {int64_t{1}, int64_t{1}, int64_t{4}}).output("y").output("i", onnx::TensorProto::INT64);
  set_ints(m.node("MaxPool", {"x"}, {"y", "i"}), "kernel_shape", {2});
  const graph::Graph g = import_model(m).graph;
  const auto values = graph::evaluate(g, table(), {tensor({1, 1, 4}, {1, 5, 3, 2})}, graph::Rounding::kEachValue);
  EXPECT_EQ(values[g.outputs[1]].ints, (std::vector<int64_t>{1, 1, 2}));
}

TEST(Converters, RangesOfAnOperatorDoNotOverlap) {
  const std::vector<ConverterRow>& rows = converters();
  EXPECT_GT(rows.size(), 150U);
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i].op != rows[i - 1].op || rows[i].domain != rows[i - 1].domain) continue;
    EXPECT_GT(rows[i - 1].last, 0) << rows[i].op;
    EXPECT_LT(rows[i - 1].last, rows[i].first) << rows[i].op;
  }
}

}  // namespace
}  // namespace tw::frontend
