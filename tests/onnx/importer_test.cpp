// What the importer makes of small models: names, shapes, constants, functions, control flow, data.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "frontend/onnx/import.h"
#include "tests/onnx/import_model.h"

namespace tw::frontend {
namespace {

using graph::RefTensor;
using namespace testing;

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

// As onnx.checker has it.
TEST(Data, OneFieldHoldsIt) {
  ModelBuilder m;
  m.output("y");
  auto& both = m.floats("both", {2}, {1, 2});
  both.set_raw_data("");
  m.node("Identity", {"both"}, {"y"});
  EXPECT_EQ(run(m, {}).floats, (std::vector<double>{1, 2}));
  both.set_raw_data(std::string(8, '\0'));
  try {
    import_model(m);
    FAIL() << "imported";
  } catch (const UserError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("tensor 'both'"), std::string::npos) << message;
    EXPECT_NE(message.find("raw_data and float_data"), std::string::npos) << message;
  }
}

TEST(Data, BoolsAreZeroOrOne) {
  ModelBuilder m;
  m.output("y", onnx::TensorProto::BOOL);
  auto& raw = m.floats("raw", {3}, {});
  raw.set_data_type(onnx::TensorProto::BOOL);
  raw.set_raw_data(std::string("\x00\x01\x7f", 3));
  m.node("Identity", {"raw"}, {"y"});
  const graph::Graph g = import_model(m).graph;
  EXPECT_TRUE(std::ranges::equal(*g.value(g.outputs[0]).constant,
                                 std::vector<std::byte>{std::byte{0}, std::byte{1}, std::byte{1}}));
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
  EXPECT_EQ(s.inputs[0].type, "f32[n,?,3]");
  EXPECT_EQ(s.outputs[0].type, "f32[unknown rank]");
  EXPECT_EQ(s.operators.at("Relu"), 1);
  EXPECT_EQ(s.opsets.at(""), 17);
  EXPECT_EQ(s.producer, "tests");
}

}  // namespace
}  // namespace tw::frontend
