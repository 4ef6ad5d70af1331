// Loops of imported graphs against their turns one after the other.
#pragma once
#include <gtest/gtest.h>

#include "graph/repeat.h"
#include "tests/onnx/import_model.h"
#include "transform/loops/unroll.h"

namespace tw::testing {

inline int loops(const graph::Graph& g) { return count(g, std::string(graph::kRepeat)); }
inline const graph::Node& first_loop(const graph::Graph& g) {
  return *std::ranges::find(g.nodes, graph::kRepeat, &graph::Node::op);
}

// Elements in [-1, 1), other ones for each tensor; integers are small.
inline std::vector<graph::RefTensor> inputs_of(const graph::Graph& g) {
  std::vector<graph::RefTensor> inputs;
  for (const graph::ValueId id : g.inputs) {
    graph::RefTensor t = graph::RefTensor::zeros(g.value(id).type);
    for (size_t i = 0; i < t.floats.size(); ++i)
      t.floats[i] = static_cast<double>((i * 37 + 11 * static_cast<size_t>(id)) % 64) / 32 - 1;
    for (size_t i = 0; i < t.ints.size(); ++i) t.ints[i] = static_cast<int64_t>(i % 3);
    inputs.push_back(std::move(t));
  }
  return inputs;
}

inline std::vector<graph::RefTensor> outputs_of(const graph::Graph& g, const std::vector<graph::RefTensor>& inputs) {
  const std::vector<graph::RefTensor> values = graph::evaluate(g, table(), inputs, graph::Rounding::kNone);
  std::vector<graph::RefTensor> outputs;
  for (const graph::ValueId id : g.outputs) outputs.push_back(values.at(id));
  return outputs;
}

// The same model of which all loops are unrolled computes the same.
inline void expect_same_unrolled(const graph::Graph& g, std::vector<graph::RefTensor> inputs = {}) {
  const graph::Graph unrolled = transform::unroll_all(g, table());
  graph::verify(unrolled, table());
  EXPECT_EQ(loops(unrolled), 0);
  if (inputs.empty()) inputs = inputs_of(g);
  const std::vector<graph::RefTensor> want = outputs_of(unrolled, inputs), got = outputs_of(g, inputs);
  for (size_t k = 0; k < want.size(); ++k) {
    EXPECT_EQ(got[k].type, want[k].type);
    EXPECT_EQ(got[k].floats, want[k].floats) << k;
    EXPECT_EQ(got[k].ints, want[k].ints) << k;
  }
}

// Elements in [-0.5, 0.5].
inline std::vector<float> weights(int64_t count, int64_t seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>((i * 29 + seed) % 17) / 16 - 0.5F);
  return values;
}

}  // namespace tw::testing
