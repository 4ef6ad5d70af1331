// A convolution, a pooling, a matrix product and a softmax: several kernels, weights and an arena.
#pragma once
#include "driver/compile.h"
#include "ops/list.h"
#include "tests/driver/random_model.h"

namespace tw::driver::test {

inline graph::Graph small_model() {
  const graph::OpTable ops = ops::all_ops();
  graph::Graph g;
  g.name = "small";
  const auto constant = [&](const char* name, Shape shape) {
    graph::RefTensor t = graph::RefTensor::zeros({DataType::f32(), std::move(shape)});
    for (size_t i = 0; i < t.floats.size(); ++i) t.floats[i] = static_cast<double>((i * 7) % 11) / 16 - 0.3125;
    return g.add_constant(name, t.type, std::make_shared<const std::vector<std::byte>>(t.to_bytes()));
  };
  const auto node = [&](const char* op, std::vector<graph::ValueId> inputs, graph::Attrs attrs = {}) {
    graph::Node n;
    n.op = op;
    n.name = op;
    n.attrs = std::move(attrs);
    n.inputs = std::move(inputs);
    return graph::append_node(g, ops, std::move(n))[0];
  };
  using Ints = std::vector<int64_t>;
  const graph::ValueId x = g.add_input("x", {DataType::f32(), {1, 3, 13, 13}});
  const auto conv = node(
      "relu", {node("conv", {x, constant("w", {17, 3, 3, 3}), constant("b", {17})}, {{"pads", Ints{1, 1, 1, 1}}})});
  const auto pooled =
      node("global_avg_pool", {node("max_pool", {conv}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}})});
  const auto flat = node("reshape", {pooled}, {{"shape", Ints{1, 17}}});
  const auto logits = node("add", {node("matmul", {flat, constant("v", {17, 10})}), constant("c", {10})});
  g.outputs = {node("softmax", {logits})};
  return g;
}

}  // namespace tw::driver::test
