// Gradients of an attention whose queries, keys and values are one product: the kernels of CPUs and GPUs that read it
// in parts, that join its gradient, and that turn its weights, on the interpreter.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/list.h"
#include "tests/construct/models/group_check.h"
#include "tests/harness/graph_evaluate.h"
#include "tests/train/attention_text.h"
#include "tests/transform/graph_tools.h"
#include "train/training_graph.h"
#include "transform/pass.h"

namespace tw::construct {
namespace {

using graph::Graph;
using graph::RefTensor;

RefTensor values_of(const TensorType& type, int64_t seed) {
  RefTensor values = RefTensor::zeros(type);
  for (size_t i = 0; i < values.floats.size(); ++i)
    values.floats[i] = static_cast<double>((static_cast<int64_t>(i) * 37 + seed * 11) % 101 - 50) / 256;
  return values;
}

// Loss and gradients of all parameters, q, k and v (and their biases) as one.
Graph gradients(const std::string& memory) {
  frontend::ImportResult model;
  model.graph = testing::parse(train::attention_text(memory));
  model.weights = train::kAttentionWeights;
  for (const std::string& name : model.weights) {
    const graph::ValueId id = model.graph.find_value(name);
    graph::Value& value = model.graph.values[static_cast<size_t>(id)];
    value.constant = share(values_of(value.type, id).to_bytes());
    std::erase(model.graph.inputs, id);
  }
  return train::make_training(model, ops::all_ops(), {train::Loss::kMeanSquared}).functions.at(1).graph;
}

class StackedKernels : public ::testing::TestWithParam<const char*> {};

TEST_P(StackedKernels, OfBothPasses) {
  const graph::OpTable ops = ops::all_ops();
  const Graph g = gradients(GetParam());
  std::vector<RefTensor> inputs;
  for (const graph::ValueId in : g.inputs) inputs.push_back(values_of(g.value(in).type, in));
  for (const char* name : {"cpu:x86-64-v3", "cpu:x86-64-v4", "cuda:sm_90a"}) {
    SCOPED_TRACE(name);
    const targets::Target target = targets::find_target(name);
    for (const DataType type : {DataType::f32(), DataType::f16()}) {
      SCOPED_TRACE(to_string(type));
      transform::TransformContext context{ops, target.info};
      context.dtype = type;
      const Graph groups = transform::transform(g, context, {});
      expect_same(g, groups, inputs, type == DataType::f32() ? 1e-5 : 0.02);
      check_groups(groups, ops, target);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, StackedKernels, ::testing::Values("h", "z"));

}  // namespace
}  // namespace tw::construct
