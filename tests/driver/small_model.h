// A convolution, a pooling, a matrix product and a softmax: several kernels, weights and an arena.
#pragma once
#include "driver/compile.h"
#include "tests/driver/random_model.h"
#include "tests/graph/sample.h"

namespace tw::driver::test {

inline graph::Graph small_model() {
  using graph::test::add;
  graph::Graph g;
  g.name = "small";
  const auto constant = [&](const char* name, Shape shape) {
    graph::RefTensor t = graph::RefTensor::zeros({DataType::f32(), std::move(shape)});
    for (size_t i = 0; i < t.floats.size(); ++i) t.floats[i] = static_cast<double>((i * 7) % 11) / 16 - 0.3125;
    return g.add_constant(name, t.type, share(t.to_bytes()));
  };
  using Ints = std::vector<int64_t>;
  const graph::ValueId x = g.add_input("x", {DataType::f32(), {1, 3, 13, 13}});
  const auto conv =
      add(g, "relu",
          {add(g, "conv", {x, constant("w", {17, 3, 3, 3}), constant("b", {17})}, {{"pads", Ints{1, 1, 1, 1}}})});
  const auto pooled =
      add(g, "global_avg_pool", {add(g, "max_pool", {conv}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}})});
  const auto flat = add(g, "reshape", {pooled}, {{"shape", Ints{1, 17}}});
  const auto logits = add(g, "add", {add(g, "matmul", {flat, constant("v", {17, 10})}), constant("c", {10})});
  g.outputs = {add(g, "softmax", {logits})};
  return g;
}

/// h.next = relu(conv(h)) and its mean: the first input and output are one state.
inline graph::Graph state_model() {
  using graph::test::add;
  graph::Graph g;
  g.name = "recurrent";
  graph::RefTensor w = graph::RefTensor::zeros({DataType::f32(), {16, 16, 3, 3}});
  for (size_t i = 0; i < w.floats.size(); ++i) w.floats[i] = static_cast<double>((i * 7) % 11) / 64 - 0.0625;
  const graph::ValueId h = g.add_input("h", {DataType::f32(), {1, 16, 12, 12}});
  const graph::ValueId weight = g.add_constant("w", w.type, share(w.to_bytes()));
  const graph::ValueId next =
      add(g, "relu", {add(g, "conv", {h, weight}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}})});
  g.outputs = {next, add(g, "global_avg_pool", {next})};
  return g;
}

}  // namespace tw::driver::test
