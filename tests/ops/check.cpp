#include "check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ops/list.h"
#include "tests/harness/graph_evaluate.h"
#include "tests/harness/te_evaluate.h"

namespace tw::ops::test {
namespace {

const graph::OpTable& table() {
  static const graph::OpTable ops = all_ops();
  return ops;
}

bool is_absent(const TensorType& type) { return type == absent(); }

RefTensor random_tensor(const TensorType& type, Range range, std::mt19937_64& random) {
  RefTensor t = RefTensor::zeros(type);
  std::uniform_real_distribution<double> real(range.low, range.high);
  std::uniform_int_distribution<int64_t> whole(static_cast<int64_t>(range.low), static_cast<int64_t>(range.high));
  for (double& x : t.floats) x = real(random);
  for (int64_t& x : t.ints) x = whole(random);
  t.round_to_type();
  return t;
}

void expect_close(const RefTensor& want, const te::TensorValues& got, double tolerance, const std::string& what) {
  ASSERT_EQ(want.type.type, got.type) << what;
  ASSERT_EQ(want.type.shape, got.shape) << what;
  for (int64_t i = 0; i < want.type.elements(); ++i) {
    if (!want.is_float()) {
      ASSERT_EQ(want.ints[i], got.ints[i]) << what << " element " << i;
      continue;
    }
    const double a = want.floats[i], b = got.floats[i];
    const bool same = a == b || (std::isnan(a) && std::isnan(b));
    ASSERT_TRUE(same || std::fabs(a - b) <= tolerance * (1 + std::fabs(a)))
        << what << " element " << i << ": " << a << " and " << b;
  }
}

void expect_round_trip(const graph::Graph& graph) {
  const std::string text = graph::to_string(graph);
  const graph::Graph again = graph::parse_graph(text, graph::large_constants(graph));
  EXPECT_EQ(text, graph::to_string(again));
  graph::verify(again, table());
}

}  // namespace

TensorType f32(Shape shape) { return {DataType::f32(), std::move(shape)}; }
TensorType f16(Shape shape) { return {DataType::f16(), std::move(shape)}; }
TensorType i32(Shape shape) { return {DataType::i32(), std::move(shape)}; }
TensorType i64(Shape shape) { return {DataType::i64(), std::move(shape)}; }
TensorType u8(Shape shape) { return {DataType(ScalarType::kU8), std::move(shape)}; }
TensorType i8(Shape shape) { return {DataType(ScalarType::kI8), std::move(shape)}; }
TensorType boolean(Shape shape) { return {DataType::boolean(), std::move(shape)}; }
TensorType absent() { return {DataType::boolean(), {-1}}; }

namespace {

// The graph of the single node; where `second` is not 0, its value is that of input `first`.
graph::Graph graph_of(const Case& c, size_t first, size_t second) {
  graph::Graph g;
  g.name = c.op;
  graph::Node node{.op = c.op, .name = "y", .attrs = c.attrs, .inputs = {}, .outputs = {}, .body = nullptr};
  for (size_t k = 0; k < c.inputs.size(); ++k) {
    const bool same = second != 0 && k == second;
    node.inputs.push_back(is_absent(c.inputs[k]) ? graph::kAbsent
                          : same                 ? node.inputs[first]
                                                 : g.add_input("x", c.inputs[k]));
  }
  g.outputs = graph::append_node(g, table(), node);
  graph::verify(g, table());
  return g;
}

std::vector<RefTensor> run(const Case& c, const graph::Graph& g, const std::vector<RefTensor>& inputs) {
  const std::vector<RefTensor> values = graph::evaluate(g, table(), inputs, graph::Rounding::kNone);
  const graph::GroupProgram group = graph::to_te(g, table());
  const te::ValueMap got = te::evaluate(group.program, graph::inputs_of(group, values));
  std::vector<RefTensor> results;
  for (size_t k = 0; k < g.outputs.size(); ++k) {
    results.push_back(values[g.outputs[k]]);
    expect_close(results.back(), got.at(group.output_tensors[k]), c.tolerance, graph::to_string(g));
  }
  expect_round_trip(g);
  return results;
}

Range range_of(const Case& c, size_t input) {
  if (!c.ranges.empty()) return c.ranges[std::min(input, c.ranges.size() - 1)];
  return c.inputs[input].type.is_bool() ? Range{0, 1} : Range{};
}

// Whether one value may be both inputs.
bool are_alike(const Case& c, size_t a, size_t b) {
  const Range ra = range_of(c, a), rb = range_of(c, b);
  return !is_absent(c.inputs[a]) && c.inputs[a] == c.inputs[b] && ra.low == rb.low && ra.high == rb.high;
}

void check(const Case& c, size_t first, size_t second) {
  std::mt19937_64 random(20240607);
  std::vector<RefTensor> inputs;
  for (size_t k = 0; k < c.inputs.size(); ++k) {
    const bool same = second != 0 && k == second;
    if (!is_absent(c.inputs[k]) && !same) inputs.push_back(random_tensor(c.inputs[k], range_of(c, k), random));
  }
  run(c, graph_of(c, first, second), inputs);
}

}  // namespace

graph::Graph single(const Case& c) { return graph_of(c, 0, 0); }

std::vector<RefTensor> run(const Case& c, const std::vector<RefTensor>& inputs) { return run(c, single(c), inputs); }

void check(const Case& c) {
  check(c, 0, 0);
  for (size_t second = 1; second < c.inputs.size(); ++second) {
    for (size_t first = 0; first < second; ++first) {
      if (are_alike(c, first, second)) check(c, first, second);
    }
  }
}

RefTensor floats(Shape shape, std::vector<double> values) { return {f32(std::move(shape)), std::move(values), {}}; }
RefTensor ints(DataType type, Shape shape, std::vector<int64_t> values) {
  return {{type, std::move(shape)}, {}, std::move(values)};
}

}  // namespace tw::ops::test
