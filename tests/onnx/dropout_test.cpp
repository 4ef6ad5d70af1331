// Dropout nodes: nothing for inference, operators for training.
#include <gtest/gtest.h>

#include "tests/onnx/import_model.h"

namespace tw::frontend {
namespace {

using graph::Graph;
using graph::Node;
using graph::RefTensor;
using namespace testing;

ImportOptions training() {
  ImportOptions options;
  options.purpose = Purpose::kTraining;
  return options;
}

onnx::TensorProto& flag(ModelBuilder& m, const std::string& name, int value) {
  auto& tensor = m.floats(name, {}, {});
  tensor.set_data_type(onnx::TensorProto::BOOL);
  tensor.add_int32_data(value);
  return tensor;
}

const Node* dropout_of(const Graph& graph) {
  const auto found = std::ranges::find(graph.nodes, "dropout", &Node::op);
  return found != graph.nodes.end() ? &*found : nullptr;
}

ModelBuilder model(int64_t opset) {
  ModelBuilder m(opset);
  m.input("x", {int64_t{2}, int64_t{3}}).output("y");
  m.floats("ratio", {}, {0.25F});
  return m;
}

TEST(Dropout, IsNothingForInference) {
  for (const int64_t opset : {7, 10, 12, 13, 22}) {
    ModelBuilder m = model(opset);
    m.node("Dropout", {"x"}, {"d"});
    m.node("Relu", {"d"}, {"y"});
    EXPECT_EQ(dropout_of(import_model(m).graph), nullptr) << opset;
  }
}

TEST(Dropout, IsAnOperatorForTraining) {
  for (const int64_t opset : {7, 10, 12, 13, 22}) {
    SCOPED_TRACE(opset);
    ModelBuilder m = model(opset);
    if (opset < 12) {
      auto* ratio = m.node("Dropout", {"x"}, {"y"}).add_attribute();
      ratio->set_name("ratio");
      ratio->set_type(onnx::AttributeProto::FLOAT);
      ratio->set_f(0.25F);
    } else {
      flag(m, "yes", 1);
      m.node("Dropout", {"x", "ratio", "yes"}, {"y"});
    }
    const Graph graph = import_model(m, training()).graph;
    ASSERT_NE(dropout_of(graph), nullptr);
    EXPECT_EQ(dropout_of(graph)->float_attr("ratio"), 0.25);
    EXPECT_EQ(dropout_of(graph)->inputs.size(), 1U) << "without a seed it is inference's";
  }
}

TEST(Dropout, SaysItselfWhetherItTrains) {
  ModelBuilder silent = model(17);
  silent.node("Dropout", {"x"}, {"y"});
  const Graph graph = import_model(silent, training()).graph;
  ASSERT_NE(dropout_of(graph), nullptr);
  EXPECT_EQ(dropout_of(graph)->float_attr("ratio"), 0.5);
  ModelBuilder never = model(17);
  flag(never, "no", 0);
  never.node("Dropout", {"x", "ratio", "no"}, {"d"});
  never.node("Relu", {"d"}, {"y"});
  EXPECT_EQ(dropout_of(import_model(never, training()).graph), nullptr);
  ModelBuilder always = model(17);
  flag(always, "yes", 1);
  always.node("Dropout", {"x", "ratio", "yes"}, {"y"});
  EXPECT_THROW(import_model(always), Unsupported);
}

TEST(Dropout, EachHasAStreamOfItsOwn) {
  ModelBuilder m = model(17);
  m.node("Dropout", {"x"}, {"a"});
  m.node("Dropout", {"x"}, {"b"});
  auto* seed = m.node("Dropout", {"x"}, {"c"}).add_attribute();
  seed->set_name("seed");
  seed->set_type(onnx::AttributeProto::INT);
  seed->set_i(9);
  m.node("Sum", {"a", "b", "c"}, {"y"});
  const Graph graph = import_model(m, training()).graph;
  std::vector<std::pair<int64_t, int64_t>> streams;
  for (const Node& node : graph.nodes) {
    if (node.op == "dropout") streams.emplace_back(node.int_attr("stream"), node.int_attr("seed"));
  }
  EXPECT_EQ(streams, (std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {1, 0}, {2, 9}}));
}

// With a seed in place: the mask says which elements are left.
TEST(Dropout, MaskIsThatOfTheResult) {
  for (const auto& [opset, type] : {std::pair{7, onnx::TensorProto::FLOAT}, {17, onnx::TensorProto::BOOL}}) {
    SCOPED_TRACE(opset);
    ModelBuilder m(opset);
    m.input("x", {int64_t{64}}).output("y").output("mask", type);
    m.node("Dropout", {"x"}, {"y", "mask"});
    Graph graph = import_model(m, training()).graph;
    const std::vector<RefTensor> idle =
        graph::evaluate(graph, table(), {tensor({64}, std::vector<double>(64, 3))}, graph::Rounding::kEachValue);
    EXPECT_EQ(idle.at(graph.outputs[1]).at(5), 1) << "without a seed all elements are left";
    const graph::ValueId seed = graph.add_input("seed", {DataType::i64(), {}});
    for (Node& node : graph.nodes) {
      if (node.op == "dropout") node.inputs = {node.inputs[0], seed, seed};
    }
    const std::vector<RefTensor> values =
        graph::evaluate(graph, table(), {tensor({64}, std::vector<double>(64, 3)), {{DataType::i64(), {}}, {}, {42}}},
                        graph::Rounding::kEachValue);
    const RefTensor &y = values.at(graph.outputs[0]), &mask = values.at(graph.outputs[1]);
    int left = 0;
    for (int64_t i = 0; i < 64; ++i) {
      EXPECT_EQ(y.at(i), mask.at(i) * 6);
      left += static_cast<int>(mask.at(i));
    }
    EXPECT_GT(left, 16);
    EXPECT_LT(left, 48);
  }
}

// A parameter that only a dropout reads is handed on: who trains gives it a seed.
TEST(Dropout, OfAConstantIsNotFolded) {
  ModelBuilder m = model(17);
  m.floats("w", {2, 3}, {1, 2, 3, 4, 5, 6});
  m.node("Dropout", {"w"}, {"d"});
  m.node("Add", {"x", "d"}, {"y"});
  const ImportResult result = import_model(m, training());
  ASSERT_NE(dropout_of(result.graph), nullptr);
  EXPECT_TRUE(result.weights.contains("w"));
}

// ---- Noise.

const char* const kRandom[] = {"RandomUniformLike", "RandomNormalLike", "Bernoulli"};

TEST(Noise, HasNoSeedForInference) {
  for (const char* op : kRandom) {
    ModelBuilder m = model(15);
    m.node(op, {"x"}, {"y"});
    try {
      import_model(m);
      ADD_FAILURE() << op;
    } catch (const Unsupported& error) {
      EXPECT_NE(std::string(error.what()).find("'tilewright train'"), std::string::npos) << error.what();
    }
  }
}

TEST(Noise, IsAnOperatorForTraining) {
  for (const char* op : kRandom) {
    ModelBuilder m = model(15);
    m.node("Dropout", {"x", "ratio"}, {"d"});
    m.node(op, {"d"}, {"y"});
    const Graph graph = import_model(m, training()).graph;
    const auto found = std::ranges::find_if(graph.nodes, [](const Node& n) { return n.op.starts_with("noise_"); });
    ASSERT_NE(found, graph.nodes.end()) << op;
    EXPECT_EQ(graph.value(found->outputs[0]).type.shape, (Shape{2, 3}));
    EXPECT_EQ(found->op, op == std::string("RandomNormalLike") ? "noise_normal" : "noise_uniform");
    EXPECT_EQ(found->int_attr("stream"), 1) << "the dropout before has a stream, too";
  }
}

TEST(Noise, IsAroundTheMiddleOfItsRange) {
  ModelBuilder m = model(13);
  auto& node = m.node("RandomUniform", {}, {"u"});
  set_ints(node, "shape", {2, 3});
  set_float(node, "low", -1);
  set_float(node, "high", 5);
  m.node("Add", {"x", "u"}, {"y"});
  const Graph graph = import_model(m, training()).graph;
  const auto found = std::ranges::find(graph.nodes, "noise_uniform", &Node::op);
  ASSERT_NE(found, graph.nodes.end());
  EXPECT_EQ(found->float_attr("span"), 6);
  const graph::Value& mean = graph.value(found->inputs[0]);
  ASSERT_TRUE(mean.is_constant());
  EXPECT_EQ(RefTensor::from_bytes(mean.type, *mean.constant).floats, std::vector<double>(6, 2));
}

}  // namespace
}  // namespace tw::frontend
