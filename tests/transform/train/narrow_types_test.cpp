// Gradients of f16 and bf16 values have their types, and are those of f64 but for rounding.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/graph_evaluate.h"
#include "tests/transform/train/gradient_check.h"
#include "transform/train/differentiate.h"

namespace tw::testing {
namespace {

using Ints = std::vector<int64_t>;
using graph::Graph;
using graph::RefTensor;
using graph::ValueId;

RefTensor as(RefTensor x, DataType type) {
  if (x.is_float()) x.type.type = type;
  x.round_to_type();
  return x;
}

// The gradients of sum(y * y) for all float inputs of the operator on inputs of `type`.
std::vector<RefTensor> gradients(const Case& c, DataType type, const std::vector<RefTensor>& inputs) {
  Graph g;
  g.name = c.op;
  graph::Node node{.op = c.op, .name = "y", .attrs = c.attrs};
  std::vector<ValueId> wanted;
  std::vector<RefTensor> given;
  for (const RefTensor& x : inputs) {
    given.push_back(as(x, type));
    node.inputs.push_back(g.add_input("x", given.back().type));
    if (x.is_float()) wanted.push_back(node.inputs.back());
  }
  const ValueId y = graph::append_node(g, operators(), node)[0];
  const ValueId wide = add_node(g, "cast", {y}, {{"to", std::string("f64")}});
  const ValueId loss = add_node(g, "reduce_sum", {add_node(g, "mul", {wide, wide})}, {{"keepdims", int64_t{0}}});
  g.outputs = transform::differentiate(g, operators(), loss, wanted);
  graph::verify(g, operators());
  graph::to_te(g, operators());
  const std::vector<RefTensor> values = graph::evaluate(g, operators(), given, graph::Rounding::kEachValue);
  std::vector<RefTensor> result;
  for (size_t k = 0; k < wanted.size(); ++k) {
    EXPECT_EQ(to_string(g.value(g.outputs[k]).type), to_string(g.value(wanted[k]).type)) << c.op;
    result.push_back(values[g.outputs[k]]);
  }
  return result;
}

void check_narrow(const Case& c) {
  std::mt19937_64 random(9);
  std::vector<RefTensor> inputs;
  for (const TensorType& type : c.inputs)
    inputs.push_back(as(random_tensor(type, c.ranges.empty() ? Range{} : c.ranges[0], random), DataType::bf16()));
  const std::vector<RefTensor> want = gradients(c, DataType::f64(), inputs);
  for (const DataType type : {DataType::f16(), DataType::bf16(), DataType::f32()}) {
    const std::vector<RefTensor> got = gradients(c, type, inputs);
    const double tolerance = type == DataType::f32() ? 1e-4 : type == DataType::f16() ? 0.02 : 0.15;
    for (size_t k = 0; k < want.size(); ++k) {
      double largest = 1;
      for (const double x : want[k].floats) largest = std::max(largest, std::fabs(x));
      for (size_t e = 0; e < want[k].floats.size(); ++e)
        ASSERT_NEAR(want[k].floats[e], got[k].floats[e], tolerance * largest)
            << c.op << " of " << to_string(type) << ", input " << k << " element " << e;
    }
  }
}

TEST(NarrowGradients, TypesAndValues) {
  const TensorType image = f64({2, 4, 5, 3}), channel = f64({4}), rows = f64({3, 5});
  const Range positive{0.5, 2};
  const Case cases[] = {{"gelu", {rows}},
                        {"sigmoid", {rows}},
                        {"pow", {rows, rows}, {}, {positive}},
                        {"div", {rows, f64({5})}, {}, {positive}},
                        {"max", {rows, rows}},
                        {"reduce_mean", {rows}},
                        {"mean_variance", {rows}, {{"axes", Ints{0}}}},
                        {"reduce_max", {rows}, {{"axes", Ints{1}}}},
                        {"reduce_prod", {rows}, {{"axes", Ints{1}}}},
                        {"reduce_log_sum_exp", {rows}, {{"axes", Ints{1}}}},
                        {"softmax", {rows}},
                        {"log_softmax", {rows}},
                        {"layer_norm", {rows, f64({5}), f64({5})}},
                        {"layer_norm", {rows, f64({5})}, {{"outputs", int64_t{3}}}},
                        {"rms_norm", {rows, f64({5})}},
                        {"group_norm", {image, channel, channel}, {{"num_groups", int64_t{2}}}},
                        {"instance_norm", {image, channel, channel}},
                        {"batch_norm", {image, channel, channel, channel, channel}, {}, {positive}},
                        {"mean_variance_norm", {image}},
                        {"lrn", {image}, {{"size", int64_t{3}}, {"alpha", 0.5}}},
                        {"lp_norm", {rows}},
                        {"matmul", {rows, f64({5, 4})}},
                        {"conv", {image, f64({3, 4, 2, 2}), f64({3})}},
                        {"conv_transpose", {image, f64({4, 3, 2, 2}), f64({3})}},
                        {"max_pool", {image}, {{"kernel_shape", Ints{2, 2}}}},
                        {"avg_pool", {image}, {{"kernel_shape", Ints{2, 2}}, {"pads", Ints{1, 0, 0, 1}}}},
                        {"lp_pool", {image}, {{"kernel_shape", Ints{2, 2}}}, {positive}},
                        {"gather", {rows, i64({4})}},
                        {"gather_elements", {rows, i64({3, 5})}}};
  for (const Case& c : cases) check_narrow(c);
}

}  // namespace
}  // namespace tw::testing
