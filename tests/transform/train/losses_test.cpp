// ONNX's losses of classes: what the importer makes of them can be differentiated, for scores and for weights.
#include <gtest/gtest.h>

#include <optional>

#include "frontend/onnx/import.h"
#include "tests/onnx/model_builder.h"
#include "tests/transform/train/gradient_check.h"
#include "transform/train/differentiate.h"

namespace tw::testing {
namespace {

using graph::RefTensor;

struct Loss {
  std::string op, reduction;
  std::vector<int64_t> scores;  // [N, C, ..]
  bool weights = false;
  std::optional<int64_t> ignored = {};
};

graph::Graph imported(const Loss& loss) {
  ModelBuilder m(17);
  const auto dims = [](const std::vector<int64_t>& shape) { return std::vector<Dim>(shape.begin(), shape.end()); };
  std::vector<int64_t> targets = loss.scores;
  targets.erase(targets.begin() + 1);
  m.input("scores", dims(loss.scores), onnx::TensorProto::DOUBLE).input("t", dims(targets), onnx::TensorProto::INT64);
  if (loss.weights) m.input("w", {loss.scores[1]}, onnx::TensorProto::DOUBLE);
  m.output("y", onnx::TensorProto::DOUBLE);
  std::vector<std::string> inputs{"scores", "t"}, outputs{"y"};
  if (loss.weights) inputs.push_back("w");
  if (loss.op == "SoftmaxCrossEntropyLoss") {
    outputs.push_back("p");
    m.output("p", onnx::TensorProto::DOUBLE);
  }
  onnx::NodeProto& node = m.node(loss.op, inputs, outputs);
  const auto attribute = [&](const char* name, onnx::AttributeProto::AttributeType type) {
    onnx::AttributeProto* a = node.add_attribute();
    a->set_name(name);
    a->set_type(type);
    return a;
  };
  attribute("reduction", onnx::AttributeProto::STRING)->set_s(loss.reduction);
  if (loss.ignored) attribute("ignore_index", onnx::AttributeProto::INT)->set_i(*loss.ignored);
  return frontend::import_onnx_bytes(m.bytes(), "", operators(), {}).graph;
}

void check_loss(const Loss& loss) {
  SCOPED_TRACE(loss.op + " " + loss.reduction);
  const graph::Graph g = imported(loss);
  std::mt19937_64 random(5);
  std::vector<RefTensor> inputs = {random_tensor(g.value(g.inputs[0]).type, {-3, 3}, random),
                                   random_tensor(g.value(g.inputs[1]).type, {0, 3}, random)};
  if (loss.ignored) inputs[1].ints.front() = *loss.ignored;
  if (loss.weights) inputs.push_back(random_tensor(g.value(g.inputs[2]).type, {0.2, 2}, random));
  check_gradients(g, inputs);
}

TEST(LossGradients, CrossEntropyAndLikelihood) {
  for (const std::string op : {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"}) {
    for (const std::string reduction : {"none", "sum", "mean"}) {
      check_loss({op, reduction, {5, 4}});
      check_loss({op, reduction, {2, 4, 3}});
      check_loss({op, reduction, {5, 4}, true});
      check_loss({op, reduction, {5, 4}, false, 2});
      check_loss({op, reduction, {5, 4}, false, -100});
      check_loss({op, reduction, {2, 4, 3, 2}, true, -1});
    }
  }
}

// What a picked probability costs: a comparison, no sum over the picks.
TEST(LossGradients, PicksAreComparisons) {
  graph::Graph g = imported({"SoftmaxCrossEntropyLoss", "mean", {5, 4}});
  const size_t before = g.nodes.size();
  transform::differentiate(g, operators(), g.outputs[0], std::vector{g.inputs[0]});
  ASSERT_GT(g.nodes.size(), before);
  for (size_t n = before; n < g.nodes.size(); ++n) EXPECT_FALSE(g.nodes[n].op.starts_with("scatter")) << g.nodes[n].op;
}

}  // namespace
}  // namespace tw::testing
