// Loop and Scan are one node each, whatever the number of their turns; where a turn is other code than the one before
// they are unrolled.
#include <gtest/gtest.h>

#include "support/error.h"
#include "tests/onnx/loop_check.h"

namespace tw::frontend {
namespace {

using graph::Graph;
using graph::RefTensor;
using namespace testing;
using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

void value(google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& list, const std::string& name,
           const std::vector<Dim>& dims, int type = onnx::TensorProto::FLOAT) {
  ModelBuilder::value(list.Add(), name, dims, type);
}

// A Loop of `trips` turns that carries s [2, 3] from x on; `fill` writes the body, whose s is carried to `next`.
template <typename Fill>
ModelBuilder loop(int64_t trips, const std::vector<std::string>& outputs, const Fill& fill) {
  ModelBuilder m;
  m.input("x", {int64_t{2}, int64_t{3}});
  for (const std::string& name : outputs) m.output(name);
  m.ints("trips", {trips});
  auto& node = m.node("Loop", {"trips", "", "x"}, outputs);
  auto& body = set_graph(node, "body");
  value(*body.mutable_input(), "i", {}, onnx::TensorProto::INT64);
  value(*body.mutable_input(), "go", {}, onnx::TensorProto::BOOL);
  value(*body.mutable_input(), "s", {});
  value(*body.mutable_output(), "go", {}, onnx::TensorProto::BOOL);
  value(*body.mutable_output(), "next", {});
  for (size_t k = 1; k < outputs.size(); ++k) value(*body.mutable_output(), fmt::format("made{}", k), {});
  fill(m, *body.mutable_node());
  return m;
}

onnx::NodeProto& add(Nodes& nodes, const std::string& op, const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs) {
  return ModelBuilder::add_node(nodes, op, inputs, outputs);
}

TEST(Loops, ARowByItsNumberIsOneLoop) {
  for (const int64_t trips : {2, 12, 300}) {
    const Graph g = import_model(loop(trips, {"last", "all"}, [&](ModelBuilder& m, Nodes& nodes) {
                      std::vector<float> rows;
                      for (int64_t i = 0; i < trips * 3; ++i) rows.push_back(static_cast<float>(i % 7));
                      m.floats("rows", {trips, 3}, rows);
                      add(nodes, "Gather", {"rows", "i"}, {"row"});
                      add(nodes, "Add", {"s", "row"}, {"next"});
                      add(nodes, "Neg", {"s"}, {"made1"});
                    })).graph;
    ASSERT_EQ(loops(g), 1);
    EXPECT_EQ(graph::repeat_of(first_loop(g)).turns, trips);
    const std::vector<RefTensor> inputs = inputs_of(g), got = outputs_of(g, inputs);
    double sum = inputs[0].floats[0];
    for (int64_t t = 0; t < trips; ++t) {
      EXPECT_EQ(got[1].floats[static_cast<size_t>(t * 6)], -sum);
      sum += static_cast<double>(t * 3 % 7);
    }
    EXPECT_EQ(got[0].floats[0], sum);
    expect_same_unrolled(g);
  }
}

TEST(Loops, OfOneTurnAreNone) {
  const Graph g =
      import_model(loop(1, {"last"}, [](ModelBuilder&, Nodes& nodes) { add(nodes, "Neg", {"s"}, {"next"}); })).graph;
  EXPECT_EQ(loops(g), 0);
}

// Outputs that the body does not compute, or that leave it twice.
TEST(Loops, OutputsMayBeAnything) {
  const ModelBuilder m = loop(9, {"last", "a", "b", "c", "d"}, [](ModelBuilder& m, Nodes& nodes) {
    m.floats("outside", {2}, {3, 4});
    add(nodes, "Neg", {"s"}, {"next"});
    add(nodes, "Identity", {"next"}, {"made1"});
    add(nodes, "Identity", {"outside"}, {"made2"});
    add(nodes, "Identity", {"i"}, {"made3"});
    add(nodes, "Identity", {"x"}, {"made4"});
  });
  ModelBuilder typed = m;
  typed.graph().mutable_output(3)->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::INT64);
  const Graph g = import_model(typed).graph;
  EXPECT_EQ(loops(g), 1);
  expect_same_unrolled(g);
  const std::vector<RefTensor> got = outputs_of(g, inputs_of(g));
  EXPECT_EQ(got[3].ints, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(got[2].row(8).floats, (std::vector<double>{3, 4}));
  EXPECT_EQ(got[0].floats, got[1].row(8).floats);
}

// What a turn's code depends on: extents, axes and shapes that are made of its number.
const std::vector<std::pair<std::string, std::function<void(ModelBuilder&, Nodes&)>>> kOtherCode = {
    {"slice",
     [](ModelBuilder& m, Nodes& nodes) {
       m.floats("rows", {20, 3}, weights(60, 4));
       m.ints("one", {1});
       m.ints("zero", {0});
       add(nodes, "Unsqueeze", {"i", "zero"}, {"from"});
       add(nodes, "Add", {"from", "one"}, {"to"});
       add(nodes, "Slice", {"rows", "from", "to", "zero"}, {"row"});
       add(nodes, "Add", {"s", "row"}, {"next"});
     }},
    {"constant of shape",
     [](ModelBuilder& m, Nodes& nodes) {
       m.ints("zero", {0});
       m.ints("one", {1});
       add(nodes, "Unsqueeze", {"i", "zero"}, {"from"});
       add(nodes, "Add", {"from", "one"}, {"shape"});
       add(nodes, "ConstantOfShape", {"shape"}, {"zeros"});
       set_int(add(nodes, "ReduceSum", {"zeros"}, {"sum"}), "keepdims", 0);
       add(nodes, "Add", {"s", "sum"}, {"next"});
     }},
    {"reshape",
     [](ModelBuilder& m, Nodes& nodes) {
       m.ints("row", {2, 3});
       m.ints("zero", {0});
       add(nodes, "Unsqueeze", {"i", "zero"}, {"from"});
       add(nodes, "Mul", {"from", "zero"}, {"nothing"});
       add(nodes, "Add", {"row", "nothing"}, {"shape"});
       add(nodes, "Reshape", {"s", "shape"}, {"next"});
     }},
};

TEST(Loops, TurnsOfOtherCodeAreUnrolled) {
  for (const auto& [name, fill] : kOtherCode) {
    SCOPED_TRACE(name);
    const ImportResult result = import_model(loop(12, {"last"}, fill));
    EXPECT_EQ(loops(result.graph), 0);
    EXPECT_EQ(result.warnings, std::vector<std::string>());
    EXPECT_EQ(outputs_of(result.graph, inputs_of(result.graph))[0].type.shape, (Shape{2, 3}));
  }
}

TEST(Loops, CarriedValuesThatGrowAreUnrolled) {
  const Graph g = import_model(loop(12, {"last"}, [](ModelBuilder&, Nodes& nodes) {
                    set_int(add(nodes, "Concat", {"s", "x"}, {"next"}), "axis", 0);
                  })).graph;
  EXPECT_EQ(loops(g), 0);
  EXPECT_EQ(g.value(g.outputs[0]).type.shape, (Shape{26, 3}));
}

// The second attempt says what the first one said, once.
TEST(Loops, WhatIsUnsupportedIsSaidOnce) {
  const ModelBuilder m = loop(12, {"last"}, [](ModelBuilder&, Nodes& nodes) {
    add(nodes, "NoSuchOperator", {"s"}, {"t"});
    add(nodes, "Neg", {"t"}, {"next"});
  });
  try {
    import_model(m);
    ADD_FAILURE() << "taken";
  } catch (const UnsupportedModel& error) {
    ASSERT_EQ(error.items().size(), 1U) << error.what();
    EXPECT_EQ(error.items()[0].op, "NoSuchOperator");
    EXPECT_EQ(error.items()[0].nodes.size(), 1U) << error.what();
  }
}

TEST(Loops, ThatMayEndBeforeAreUnrolled) {
  ModelBuilder m = loop(12, {"last"}, [](ModelBuilder& m, Nodes& nodes) {
    m.ints("five", {5}).clear_dims();
    add(nodes, "Less", {"i", "five"}, {"goes"});
    add(nodes, "Add", {"s", "s"}, {"next"});
  });
  m.graph().mutable_node(0)->mutable_attribute(0)->mutable_g()->mutable_output(0)->set_name("goes");
  const Graph g = import_model(m).graph;
  EXPECT_EQ(loops(g), 0);
  const std::vector<RefTensor> inputs = inputs_of(g);
  EXPECT_EQ(outputs_of(g, inputs)[0].floats[0], 64 * inputs[0].floats[0]);
}

TEST(Loops, ASequenceFromOutsideIsReadByUnrolledTurns) {
  const Graph g = import_model(loop(12, {"last"}, [](ModelBuilder& m, Nodes& nodes) {
                    m.node("SequenceConstruct", {"x", "x"}, {"both"});
                    m.graph().mutable_node()->SwapElements(0, 1);
                    m.ints("one", {1}).clear_dims();
                    add(nodes, "SequenceAt", {"both", "one"}, {"t"});
                    add(nodes, "Add", {"s", "t"}, {"next"});
                  })).graph;
  EXPECT_EQ(loops(g), 0);
  const std::vector<RefTensor> inputs = inputs_of(g);
  EXPECT_EQ(outputs_of(g, inputs)[0].floats[0], 13 * inputs[0].floats[0]);
}

// ---- Loops within loops.

// Nested so deep, each of twice the same turns; the innermost body has `op`.
ModelBuilder nested(int depth, const std::string& op) {
  ModelBuilder m;
  m.input("x", {int64_t{2}}).output("y");
  m.ints("trips", {12});
  m.ints("two", {2});
  Nodes* nodes = m.graph().mutable_node();
  std::string before = "x", after = "y";
  for (int d = 0; d < depth; ++d) {
    auto& node = add(*nodes, "Loop", {d == 0 ? "trips" : "two", "", before}, {after});
    auto& body = set_graph(node, "body");
    before = fmt::format("s{}", d);
    after = fmt::format("n{}", d);
    value(*body.mutable_input(), fmt::format("i{}", d), {}, onnx::TensorProto::INT64);
    value(*body.mutable_input(), fmt::format("go{}", d), {}, onnx::TensorProto::BOOL);
    value(*body.mutable_input(), before, {});
    value(*body.mutable_output(), fmt::format("go{}", d), {}, onnx::TensorProto::BOOL);
    value(*body.mutable_output(), after, {});
    nodes = body.mutable_node();
  }
  add(*nodes, op, {before}, {after});
  return m;
}

TEST(Loops, WithinLoops) {
  const Graph g = import_model(nested(3, "Neg")).graph;
  ASSERT_EQ(loops(g), 1);
  EXPECT_EQ(loops(*first_loop(g).body), 1);
  EXPECT_EQ(loops(*first_loop(*first_loop(g).body).body), 1);
  expect_same_unrolled(g);
}

void expect_one_unsupported(int depth) {
  try {
    import_model(nested(depth, "NoSuchOperator"));
    ADD_FAILURE() << "taken";
  } catch (const UnsupportedModel& error) {
    EXPECT_EQ(error.items().size(), 1U) << error.what();
  }
}

TEST(Loops, WithinLoopsSayWhatIsUnsupported) {
  for (const int depth : {1, 2, 8}) expect_one_unsupported(depth);
}

// Each attempt that fails is made again by the loop around: the time must not double with every one of them.
TEST(Loops, DeepOnesThatFailDoSoSoon) { expect_one_unsupported(18); }

// ---- Scan.

TEST(Scans, OfAllAxesAndDirections) {
  for (const int64_t input_backwards : {0, 1}) {
    for (const int64_t axis : {0, 1, 2}) {
      ModelBuilder m;
      Shape shape{2, 3};
      shape.insert(shape.begin() + axis, 11);
      m.input("s", {int64_t{2}, int64_t{3}}).input("x", {shape[0], shape[1], shape[2]}).output("last").output("all");
      auto& node = m.node("Scan", {"s", "x"}, {"last", "all"});
      set_int(node, "num_scan_inputs", 1);
      set_ints(node, "scan_input_axes", {axis});
      set_ints(node, "scan_input_directions", {input_backwards});
      set_ints(node, "scan_output_axes", {axis - 3});
      set_ints(node, "scan_output_directions", {1});
      auto& body = set_graph(node, "body");
      for (const char* name : {"a", "e"}) value(*body.mutable_input(), name, {int64_t{2}, int64_t{3}});
      for (const char* name : {"next", "out"}) value(*body.mutable_output(), name, {int64_t{2}, int64_t{3}});
      add(*body.mutable_node(), "Add", {"a", "e"}, {"next"});
      add(*body.mutable_node(), "Identity", {"e"}, {"out"});
      const Graph g = import_model(m).graph;
      EXPECT_EQ(loops(g), 1);
      expect_same_unrolled(g);
      // Read the other way round they are written backwards, and come back as they were.
      const std::vector<RefTensor> inputs = inputs_of(g), got = outputs_of(g, inputs);
      EXPECT_EQ(got[1].type.shape, shape);
      EXPECT_EQ(got[1].floats == inputs[1].floats, input_backwards == 1) << axis;
    }
  }
}

// ---- Training.

TEST(Loops, EachTurnDrawsOtherNumbers) {
  ImportOptions training;
  training.purpose = Purpose::kTraining;
  const auto fill = [](ModelBuilder&, Nodes& nodes) {
    add(nodes, "Dropout", {"s"}, {"d"});
    add(nodes, "Add", {"d", "x"}, {"next"});
  };
  const Graph g = import_model(loop(12, {"last"}, fill), training).graph;
  EXPECT_EQ(loops(g), 0);
  std::set<int64_t> streams;
  for (const graph::Node& node : g.nodes) {
    if (node.op == "dropout") streams.insert(node.int_attr("stream"));
  }
  EXPECT_EQ(streams.size(), 12U);
  EXPECT_EQ(*streams.rbegin(), 11) << "the attempt took none";
  EXPECT_EQ(loops(import_model(loop(12, {"last"}, fill)).graph), 1) << "for inference it is nothing";
}

}  // namespace
}  // namespace tw::frontend
