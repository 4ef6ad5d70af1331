#include "tests/transform/train/gradient_check.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/list.h"
#include "tests/harness/graph_evaluate.h"
#include "tests/harness/te_evaluate.h"
#include "transform/train/differentiate.h"

namespace tw::testing {
namespace {

using graph::Graph;
using graph::RefTensor;
using graph::ValueId;

bool is_float(const Graph& g, ValueId id) { return g.value(id).type.type.is_float(); }

// The sum of all elements of the float outputs, each weighted by a number of its own.
ValueId add_loss(Graph& g) {
  std::mt19937_64 random(7);
  ValueId total = graph::kAbsent;
  for (const ValueId out : g.outputs) {
    if (!is_float(g, out)) continue;
    const ValueId weights = add_constant(g, random_tensor(g.value(out).type, {-1, 1}, random));
    const ValueId sum = add_node(g, "reduce_sum", {add_node(g, "mul", {out, weights})}, {{"keepdims", int64_t{0}}});
    total = total == graph::kAbsent ? sum : add_node(g, "add", {total, sum});
  }
  return total;
}

double loss_at(const Graph& g, ValueId loss, const std::vector<RefTensor>& inputs) {
  return graph::evaluate(g, operators(), inputs, graph::Rounding::kNone)[loss].floats[0];
}

double difference(const Graph& g, ValueId loss, std::vector<RefTensor>& inputs, size_t k, size_t element) {
  constexpr double kStep = 1e-5;
  double& x = inputs[k].floats[element];
  const double at = x;
  x = at + kStep;
  const double above = loss_at(g, loss, inputs);
  x = at - kStep;
  const double below = loss_at(g, loss, inputs);
  x = at;
  return (above - below) / (2 * kStep);
}

void expect_same_te(const Graph& g, const std::vector<RefTensor>& values) {
  const graph::GroupProgram group = graph::to_te(g, operators());
  const te::ValueMap got = te::evaluate(group.program, graph::inputs_of(group, values));
  for (size_t k = 0; k < g.outputs.size(); ++k) {
    const std::vector<double>& want = values[g.outputs[k]].floats;
    const std::vector<double>& have = got.at(group.output_tensors[k]).floats;
    ASSERT_EQ(want.size(), have.size());
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(want[i], have[i], 1e-5 * (1 + std::fabs(want[i]))) << "te, element " << i << "\n" << to_string(g);
  }
}

// Of the float inputs for which `wanted` holds.
void check_some(const Graph& plain, std::vector<RefTensor> inputs, const std::vector<bool>& wanted, double tolerance) {
  Graph g = plain;
  const ValueId loss = add_loss(g);
  const Graph forward = g;
  std::vector<size_t> which;
  std::vector<ValueId> values;
  for (size_t k = 0; k < g.inputs.size(); ++k) {
    if (!wanted[k]) continue;
    which.push_back(k);
    values.push_back(g.inputs[k]);
  }
  g.outputs = transform::differentiate(g, operators(), loss, values);
  graph::verify(g, operators());
  Graph all = g;
  for (const graph::Node& node : forward.nodes)
    all.outputs.insert(all.outputs.end(), node.outputs.begin(), node.outputs.end());
  EXPECT_EQ(graph::compact(all).nodes.size(), g.nodes.size()) << "nodes that nothing needs\n" << to_string(g);
  const std::vector<RefTensor> got = graph::evaluate(g, operators(), inputs, graph::Rounding::kNone);
  for (size_t k = 0; k < which.size(); ++k) {
    const RefTensor& gradient = got[g.outputs[k]];
    ASSERT_EQ(to_string(gradient.type), to_string(inputs[which[k]].type)) << "input " << which[k] << "\n"
                                                                          << to_string(g);
    for (size_t e = 0; e < gradient.floats.size(); ++e) {
      const double want = difference(forward, loss, inputs, which[k], e);
      ASSERT_NEAR(want, gradient.floats[e], tolerance * (1 + std::fabs(want)))
          << "input " << which[k] << " element " << e << "\n"
          << to_string(g);
    }
  }
  expect_same_te(g, got);
}

// A graph of the one node; where `second` is not 0, its value is that of input `first`.
Graph graph_of(const Case& c, size_t first, size_t second) {
  Graph g;
  g.name = c.op;
  graph::Node node{.op = c.op, .name = "y", .attrs = c.attrs};
  for (size_t k = 0; k < c.inputs.size(); ++k) {
    const bool same = second != 0 && k == second;
    node.inputs.push_back(c.inputs[k] == absent() ? graph::kAbsent
                          : same                  ? node.inputs[first]
                                                  : g.add_input("x", c.inputs[k]));
  }
  g.outputs = graph::append_node(g, operators(), node);
  return g;
}

Range range_of(const Case& c, size_t input) {
  if (!c.ranges.empty()) return c.ranges[std::min(input, c.ranges.size() - 1)];
  return c.inputs[input].type.is_bool() ? Range{0, 1} : Range{};
}

std::vector<RefTensor> inputs_of(const Case& c, size_t second) {
  std::mt19937_64 random(20240607);
  std::vector<RefTensor> inputs;
  for (size_t k = 0; k < c.inputs.size(); ++k) {
    if (c.inputs[k] != absent() && (second == 0 || k != second))
      inputs.push_back(random_tensor(c.inputs[k], range_of(c, k), random));
  }
  return inputs;
}

}  // namespace

const graph::OpTable& operators() {
  static const graph::OpTable ops = ops::all_ops();
  return ops;
}

TensorType f64(Shape shape) { return {DataType::f64(), std::move(shape)}; }
TensorType i64(Shape shape) { return {DataType::i64(), std::move(shape)}; }
TensorType boolean(Shape shape) { return {DataType::boolean(), std::move(shape)}; }
TensorType absent() { return {DataType::boolean(), {-1}}; }

RefTensor random_tensor(const TensorType& type, Range range, std::mt19937_64& random) {
  RefTensor t = RefTensor::zeros(type);
  std::uniform_real_distribution<double> real(range.low, range.high);
  std::uniform_int_distribution<int64_t> whole(static_cast<int64_t>(range.low), static_cast<int64_t>(range.high));
  for (double& x : t.floats) x = real(random);
  for (int64_t& x : t.ints) x = whole(random);
  return t;
}

ValueId add_constant(Graph& graph, const RefTensor& elements) {
  return graph.add_constant("c", elements.type, share(elements.to_bytes()));
}

ValueId add_node(Graph& graph, const std::string& op, std::vector<ValueId> inputs, graph::Attrs attrs) {
  return graph::append_node(graph, operators(),
                            {.op = op, .name = op, .attrs = std::move(attrs), .inputs = std::move(inputs)})[0];
}

void check_gradients(const Graph& graph, const std::vector<RefTensor>& inputs, double tolerance) {
  std::vector<bool> wanted;
  for (const ValueId in : graph.inputs) wanted.push_back(is_float(graph, in));
  check_some(graph, inputs, wanted, tolerance);
}

void check_case(const Case& c) {
  const Graph g = graph_of(c, 0, 0);
  const std::vector<RefTensor> inputs = inputs_of(c, 0);
  check_gradients(g, inputs);
  for (size_t k = 0; inputs.size() > 1 && k < inputs.size(); ++k) {
    std::vector<bool> alone(inputs.size(), false);
    alone[k] = true;
    if (inputs[k].is_float()) check_some(g, inputs, alone, 1e-6);
  }
  for (size_t second = 1; second < c.inputs.size(); ++second) {
    for (size_t first = 0; first < second; ++first) {
      const Range a = range_of(c, first), b = range_of(c, second);
      const bool alike =
          c.inputs[first] == c.inputs[second] && c.inputs[first] != absent() && a.low == b.low && a.high == b.high;
      if (alike) check_gradients(graph_of(c, first, second), inputs_of(c, second));
    }
  }
}

}  // namespace tw::testing
