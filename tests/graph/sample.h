// Small graphs for the graph tests.
#pragma once
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "graph/op.h"
#include "ops/list.h"

namespace tw::graph::test {

inline const OpTable& table() {
  static const OpTable ops = ops::all_ops();
  return ops;
}

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return share(std::move(bytes));
}

inline TensorType f32(Shape shape) { return {DataType::f32(), std::move(shape)}; }

inline ValueId add(Graph& g, const std::string& op, std::vector<ValueId> inputs, Attrs attrs = {},
                   const std::string& name = "") {
  return append_node(g, table(),
                     {.op = op,
                      .name = name.empty() ? op : name,
                      .attrs = std::move(attrs),
                      .inputs = std::move(inputs),
                      .outputs = {},
                      .body = nullptr})[0];
}

/// relu(x * w + b) of x [m, k]; w is large (referred to by its hash), b small (printed).
inline Graph mlp(int64_t m, int64_t k, int64_t n) {
  Graph g;
  g.name = "mlp";
  const ValueId x = g.add_input("x", f32({m, k}));
  std::vector<float> w(k * n), b(n);
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 13) - 6;
  for (size_t i = 0; i < b.size(); ++i) b[i] = 0.1f * static_cast<float>(i);
  const ValueId weights = g.add_constant("w", f32({k, n}), bytes_of(w));
  const ValueId bias = g.add_constant("b", f32({n}), bytes_of(b));
  g.outputs = {add(g, "relu", {add(g, "add", {add(g, "matmul", {x, weights}), bias})})};
  return g;
}

/// x -> one group that holds mlp -> neg.
inline Graph grouped(int64_t m, int64_t k, int64_t n) {
  Graph g;
  g.name = "outer";
  const ValueId x = g.add_input("x", f32({m, k}));
  auto body = std::make_shared<const Graph>(mlp(m, k, n));
  const ValueId y = g.add_node({.op = "group", .name = "g0", .attrs = {}, .inputs = {x}, .outputs = {}, .body = body},
                               {f32({m, n})})[0];
  g.outputs = {add(g, "neg", {y})};
  return g;
}

inline RefTensor counting(Shape shape) {
  RefTensor t = RefTensor::zeros(f32(std::move(shape)));
  for (size_t i = 0; i < t.floats.size(); ++i) t.floats[i] = static_cast<double>(i % 11) - 5;
  return t;
}

}  // namespace tw::graph::test
