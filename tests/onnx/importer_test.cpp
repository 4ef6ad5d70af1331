// What the importer makes of small models: names, shapes, constants, functions, control flow, old opsets.
#include <gtest/gtest.h>

#include <fstream>

#include "frontend/onnx/converters.h"
#include "frontend/onnx/import.h"
#include "ops/list.h"
#include "tests/onnx/model_builder.h"
#include "tests/support_code/graph_evaluate.h"

namespace tw::frontend {
namespace {

using graph::RefTensor;
using testing::ModelBuilder;
using testing::set_float;
using testing::set_graph;
using testing::set_int;
using testing::set_ints;

const graph::OpTable& table() {
  static const graph::OpTable kOps = ops::all_ops();
  return kOps;
}

ImportResult import_model(const ModelBuilder& builder, const ImportOptions& options = {}) {
  ImportResult result = import_onnx_bytes(builder.bytes(), "", table(), options);
  graph::verify(result.graph, table());
  return result;
}

RefTensor tensor(const Shape& shape, std::vector<double> values) {
  RefTensor t{.type = {DataType::f32(), shape}, .floats = std::move(values), .ints = {}};
  return t;
}

// First output of the model for these inputs.
RefTensor run(const ModelBuilder& builder, std::vector<RefTensor> inputs, const ImportOptions& options = {}) {
  const graph::Graph graph = import_model(builder, options).graph;
  return graph::evaluate(graph, table(), std::move(inputs), graph::Rounding::kEachValue).at(graph.outputs[0]);
}

int count(const graph::Graph& graph, const std::string& op) {
  int n = 0;
  for (const graph::Node& node : graph.nodes) n += node.op == op;
  return n;
}

TEST(Importer, KeepsNamesOfInputsOutputsNodesAndValues) {
  ModelBuilder m;
  m.input("x", {int64_t{2}}).output("out/y:0");
  m.node("Abs", {"x"}, {"middle"});
  m.node("Relu", {"middle"}, {"out/y:0"});
  const ImportResult result = import_model(m);
  const graph::Graph& g = result.graph;
  ASSERT_EQ(g.nodes.size(), 2U);
  EXPECT_EQ(g.value(g.inputs[0]).name, "x");
  EXPECT_EQ(g.value(g.outputs[0]).name, "out/y:0");
  EXPECT_EQ(g.nodes[0].name, "node_middle");
  EXPECT_EQ(g.value(g.nodes[0].outputs[0]).name, "middle");
  EXPECT_EQ(result.opset, 17);
  EXPECT_EQ(result.ir_version, 8);
}

TEST(Importer, OutputsAreValuesOfTheirOwn) {
  ModelBuilder m;
  m.input("x", {int64_t{2}}).output("same").output("again").output("constant");
  m.floats("w", {1}, {3});
  m.node("Identity", {"x"}, {"same"});
  m.node("Identity", {"x"}, {"again"});
  m.node("Neg", {"w"}, {"constant"});
  const graph::Graph g = import_model(m).graph;
  ASSERT_EQ(g.outputs.size(), 3U);
  EXPECT_EQ(g.value(g.outputs[0]).name, "same");
  EXPECT_EQ(g.value(g.outputs[1]).name, "again");
  EXPECT_EQ(g.value(g.outputs[2]).name, "constant");
  EXPECT_NE(g.outputs[0], g.outputs[1]);
  EXPECT_NE(g.outputs[0], g.inputs[0]);
  EXPECT_TRUE(g.value(g.outputs[2]).is_constant());
}

TEST(Importer, InitializersThatAreInputsAreConstants) {
  ModelBuilder m;
  m.model().set_ir_version(3);
  m.input("x", {int64_t{2}}).input("w", {int64_t{2}}).output("y");
  m.floats("w", {2}, {10, 20});
  m.node("Add", {"x", "w"}, {"y"});
  EXPECT_EQ(import_model(m).graph.inputs.size(), 1U);
  EXPECT_EQ(run(m, {tensor({2}, {1, 2})}).floats, (std::vector<double>{11, 22}));
}

TEST(Importer, DeadNodesAreNotImported) {
  ModelBuilder m;
  m.input("x", {int64_t{2}}).output("y");
  m.node("MadeUp", {"x"}, {"unused"});
  m.node("Relu", {"x"}, {"y"});
  EXPECT_EQ(import_model(m).graph.nodes.size(), 1U);
}

TEST(Importer, ShapeBindsSymbolsOfOtherInputs) {
  ModelBuilder m;
  m.input("a", {"batch", int64_t{3}}).input("b", {"batch", "width"}).output("y", {"batch", "out"});
  m.node("Concat", {"a", "b"}, {"y"});
  set_int(*m.graph().mutable_node(0), "axis", 1);
  ImportOptions options;
  options.shapes["a"] = {5, 3};
  options.dims["width"] = 2;
  const graph::Graph g = import_model(m, options).graph;
  EXPECT_EQ(g.value(g.inputs[1]).type.shape, (Shape{5, 2}));
  EXPECT_EQ(g.value(g.outputs[0]).type.shape, (Shape{5, 5}));
}

TEST(Importer, ConstantsBindInputs) {
  ModelBuilder m;
  m.input("x", {int64_t{2}, int64_t{3}}).input("s", {"rank"}, onnx::TensorProto::INT64).output("y");
  m.node("Reshape", {"x", "s"}, {"y"});
  ImportOptions options;
  options.constants["s"] = {.type = {DataType::i64(), {2}}, .floats = {}, .ints = {3, -1}};
  const graph::Graph g = import_model(m, options).graph;
  EXPECT_EQ(g.inputs.size(), 1U);
  EXPECT_EQ(g.value(g.outputs[0]).type.shape, (Shape{3, 2}));
  try {
    options = {};
    options.dims["rank"] = 2;
    import_model(m, options);
    FAIL();
  } catch (const UnsupportedModel& e) {
    EXPECT_EQ(e.bindable(), std::vector<std::string>{"s"});
    ASSERT_EQ(e.items().size(), 1U);
    EXPECT_EQ(e.items()[0].op, "Reshape");
  }
}

// Shape -> Gather -> Unsqueeze -> Concat -> Reshape, as exporters write x.view(x.size(0), -1).
TEST(Importer, ShapeArithmeticVanishes) {
  ModelBuilder m;
  m.input("x", {"n", int64_t{3}, int64_t{4}}).output("y");
  m.ints("zero", {0});
  m.ints("rest", {-1});
  m.node("Shape", {"x"}, {"shape"});
  m.node("Gather", {"shape", "zero"}, {"batch"});
  m.node("Concat", {"batch", "rest"}, {"target"});
  set_int(*m.graph().mutable_node(2), "axis", 0);
  m.node("Reshape", {"x", "target"}, {"y"});
  ImportOptions options;
  options.dims["n"] = 7;
  const graph::Graph g = import_model(m, options).graph;
  ASSERT_EQ(g.nodes.size(), 1U);
  EXPECT_EQ(g.nodes[0].op, "reshape");
  EXPECT_EQ(g.value(g.outputs[0]).type.shape, (Shape{7, 12}));
  EXPECT_EQ(g.values.size(), 2U);
}

TEST(Importer, LargeConstantExpressionsStayInTheGraph) {
  ModelBuilder m;
  m.output("y");
  m.ints("shape", {300, 300});
  m.node("ConstantOfShape", {"shape"}, {"zeros"});
  m.node("Cos", {"zeros"}, {"y"});
  const graph::Graph g = import_model(m).graph;
  EXPECT_EQ(count(g, "expand"), 1);
  EXPECT_EQ(count(g, "cos"), 1);
}

// Slices of the data that the updates replace in few runs: no element is looked up.
TEST(Importer, ScatteredSlicesAreConcatenated) {
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
TEST(Importer, ScatteredRowsAreGathered) {
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

TEST(Importer, UnknownAttributesAreReported) {
  ModelBuilder m;
  m.input("x", {int64_t{2}}).output("y");
  set_int(m.node("Relu", {"x"}, {"y"}), "alpah", 1);
  const ImportResult result = import_model(m);
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_NE(result.warnings[0].find("'node_y' (Relu, opset 17): attribute alpah ignored"), std::string::npos)
      << result.warnings[0];
}

onnx::FunctionProto& add_function(ModelBuilder& m, const std::string& name) {
  onnx::FunctionProto& f = *m.model().add_functions();
  f.set_name(name);
  f.set_domain("local");
  auto* opset = f.add_opset_import();
  opset->set_version(17);
  f.add_input("a");
  f.add_output("b");
  return f;
}

TEST(Functions, AreInlinedWithTheirAttributes) {
  ModelBuilder m;
  m.opset_import("local", 1);
  m.input("x", {int64_t{2}}).output("y");
  onnx::FunctionProto& f = add_function(m, "Leaky");
  f.add_attribute("slope");
  auto& inner = ModelBuilder::add_node(*f.mutable_node(), "LeakyRelu", {"a"}, {"b"});
  auto* reference = inner.add_attribute();
  reference->set_name("alpha");
  reference->set_ref_attr_name("slope");
  reference->set_type(onnx::AttributeProto::FLOAT);
  set_float(m.node("Leaky", {"x"}, {"t"}, "local"), "slope", 0.5F);
  m.node("Leaky", {"t"}, {"y"}, "local");  // without the attribute: the operator's own default
  const RefTensor y = run(m, {tensor({2}, {-4, 8})});
  EXPECT_NEAR(y.floats[0], -0.02, 1e-8);
  EXPECT_EQ(y.floats[1], 8);
  const graph::Graph g = import_model(m).graph;
  EXPECT_EQ(g.nodes[0].name, "node_t/node_b");
}

TEST(Functions, MayCallOthersAndHideOuterNames) {
  ModelBuilder m;
  m.opset_import("local", 1);
  m.input("x", {int64_t{1}}).output("y");
  onnx::FunctionProto& inner = add_function(m, "Inner");
  ModelBuilder::add_node(*inner.mutable_node(), "Neg", {"a"}, {"x"});
  ModelBuilder::add_node(*inner.mutable_node(), "Add", {"x", "x"}, {"b"});
  onnx::FunctionProto& outer = add_function(m, "Outer");
  outer.add_opset_import()->set_domain("local");
  ModelBuilder::add_node(*outer.mutable_node(), "Inner", {"a"}, {"c"}, "local");
  ModelBuilder::add_node(*outer.mutable_node(), "Mul", {"c", "a"}, {"b"});
  m.node("Outer", {"x"}, {"y"}, "local");
  EXPECT_EQ(run(m, {tensor({1}, {3})}).floats, std::vector<double>{-18});
}

// A function body does not see the caller's values.
TEST(Functions, DoNotCapture) {
  ModelBuilder m;
  m.opset_import("local", 1);
  m.input("x", {int64_t{1}}).output("y");
  ModelBuilder::add_node(*add_function(m, "F").mutable_node(), "Add", {"a", "x"}, {"b"});
  m.node("F", {"x"}, {"y"}, "local");
  EXPECT_THROW(import_model(m), UserError);
}

void add_branch(onnx::GraphProto& graph, const std::string& op) {
  ModelBuilder::add_node(*graph.mutable_node(), op, {"x"}, {"r_" + op});
  ModelBuilder::value(graph.add_output(), "r_" + op, {int64_t{2}}, onnx::TensorProto::FLOAT);
}

ModelBuilder if_model(const std::string& condition) {
  ModelBuilder m;
  m.input("x", {int64_t{2}}).output("y");
  auto& node = m.node("If", {condition}, {"y"});
  add_branch(set_graph(node, "then_branch"), "Neg");
  add_branch(set_graph(node, "else_branch"), "Abs");
  return m;
}

TEST(ControlFlow, KnownConditionTakesOneBranch) {
  ModelBuilder m = if_model("no");
  auto& no = m.floats("no", {}, {});
  no.set_data_type(onnx::TensorProto::BOOL);
  no.add_int32_data(0);
  const graph::Graph g = import_model(m).graph;
  ASSERT_EQ(g.nodes.size(), 1U);
  EXPECT_EQ(g.nodes[0].op, "abs");
}

TEST(ControlFlow, UnknownConditionSelects) {
  ModelBuilder m = if_model("c");
  m.input("c", {}, onnx::TensorProto::BOOL);
  const RefTensor x = tensor({2}, {-1, 2});
  for (int64_t c : {0, 1}) {
    const RefTensor condition{.type = {DataType::boolean(), {}}, .floats = {}, .ints = {c}};
    EXPECT_EQ(run(m, {x, condition}).floats, (c ? std::vector<double>{1, -2} : std::vector<double>{1, 2}));
  }
}

// s = s * 2 + i three times, and every s stacked.
TEST(ControlFlow, LoopsAreUnrolled) {
  ModelBuilder m;
  m.input("x", {int64_t{2}}).output("last").output("all");
  m.ints("three", {3});
  auto& body = set_graph(m.node("Loop", {"three", "", "x"}, {"last", "all"}), "body");
  ModelBuilder::value(body.add_input(), "i", {}, onnx::TensorProto::INT64);
  ModelBuilder::value(body.add_input(), "go", {}, onnx::TensorProto::BOOL);
  ModelBuilder::value(body.add_input(), "s", {int64_t{2}}, onnx::TensorProto::FLOAT);
  for (const char* name : {"go", "next", "next"})
    ModelBuilder::value(body.add_output(), name, {}, onnx::TensorProto::FLOAT);
  set_int(ModelBuilder::add_node(*body.mutable_node(), "Cast", {"i"}, {"f"}), "to", onnx::TensorProto::FLOAT);
  ModelBuilder::add_node(*body.mutable_node(), "Add", {"s", "s"}, {"d"});
  ModelBuilder::add_node(*body.mutable_node(), "Add", {"d", "f"}, {"next"});
  const graph::Graph g = import_model(m).graph;
  const auto values = graph::evaluate(g, table(), {tensor({2}, {1, 10})}, graph::Rounding::kEachValue);
  EXPECT_EQ(values[g.outputs[0]].floats, (std::vector<double>{12, 84}));
  EXPECT_EQ(values[g.outputs[1]].type.shape, (Shape{3, 2}));
  EXPECT_EQ(values[g.outputs[1]].floats, (std::vector<double>{2, 20, 5, 41, 12, 84}));
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
    auto* attribute = m.node("Conv", {"x", "w"}, {"y"}).add_attribute();
    attribute->set_name("auto_pad");
    attribute->set_type(onnx::AttributeProto::STRING);
    attribute->set_s(mode);
    const std::vector<double> expected =
        mode == "SAME_UPPER" ? std::vector<double>{21, 32, 43, 4} : std::vector<double>{10, 21, 32, 43};
    EXPECT_EQ(run(m, {tensor({1, 1, 4}, {1, 2, 3, 4})}).floats, expected) << mode;
  }
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

TEST(Data, TypedFieldsAndRawBytesAgree) {
  ModelBuilder m;
  m.output("a", onnx::TensorProto::FLOAT16).output("b", onnx::TensorProto::FLOAT16);
  auto& typed = m.floats("typed", {2}, {});
  typed.set_data_type(onnx::TensorProto::FLOAT16);
  typed.add_int32_data(0x3c00);
  typed.add_int32_data(0xc000);
  auto& raw = m.floats("raw", {2}, {});
  raw.set_data_type(onnx::TensorProto::FLOAT16);
  raw.set_raw_data(std::string("\x00\x3c\x00\xc0", 4));
  m.node("Identity", {"typed"}, {"a"});
  m.node("Identity", {"raw"}, {"b"});
  const graph::Graph g = import_model(m).graph;
  const auto values = graph::evaluate(g, table(), {}, graph::Rounding::kEachValue);
  EXPECT_EQ(values[g.outputs[0]].floats, (std::vector<double>{1, -2}));
  EXPECT_EQ(values[g.outputs[1]].floats, (std::vector<double>{1, -2}));
}

TEST(Data, BoolsAreZeroOrOne) {
  ModelBuilder m;
  m.output("y", onnx::TensorProto::BOOL);
  auto& raw = m.floats("raw", {3}, {});
  raw.set_data_type(onnx::TensorProto::BOOL);
  raw.set_raw_data(std::string("\x00\x01\x7f", 3));
  m.node("Identity", {"raw"}, {"y"});
  const graph::Graph g = import_model(m).graph;
  EXPECT_EQ(*g.value(g.outputs[0]).constant, (std::vector<std::byte>{std::byte{0}, std::byte{1}, std::byte{1}}));
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

TEST(Summary, NamesInputsOutputsAndOperators) {
  ModelBuilder m;
  m.input("x", {"n", {}, int64_t{3}}).output("y");
  m.node("Relu", {"x"}, {"y"});
  const std::string path = ::testing::TempDir() + "summary.onnx";
  m.model().set_producer_name("tests");
  std::ofstream(path, std::ios::binary) << m.model().SerializeAsString();
  const ModelSummary s = summarize_onnx_file(path);
  ASSERT_EQ(s.inputs.size(), 1U);
  EXPECT_EQ(s.inputs[0].type, "f32[n, ?, 3]");
  EXPECT_EQ(s.outputs[0].type, "f32[unknown rank]");
  EXPECT_EQ(s.operators.at("Relu"), 1);
  EXPECT_EQ(s.opsets.at(""), 17);
  EXPECT_EQ(s.producer, "tests");
}

}  // namespace
}  // namespace tw::frontend
