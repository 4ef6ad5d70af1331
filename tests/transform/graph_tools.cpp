#include "tests/transform/graph_tools.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "graph/error_output.h"
#include "ops/list.h"
#include "tests/harness/graph_evaluate.h"

namespace tw::testing {

using graph::Graph;
using graph::RefTensor;
using graph::ValueId;

const transform::TransformContext& context() {
  static const graph::OpTable ops = ops::all_ops();
  TargetInfo target;
  // Of tests that make a GPU of it.
  target.sm = {.cycles_per_ns = 1.7,
               .thread_products = 128,
               .warp_products = 1024,
               .group_products = 0,
               .shared_bytes = 128,
               .l2_bytes = 64,
               .all_l2_bytes = 6154,
               .l2_share = 48,
               .dram_share = 14,
               .kernel_cycles = 3400,
               .registers = 65536,
               .reserved_bytes = 3072};
  static const transform::TransformContext made{ops, target};
  return made;
}

Graph parse(const std::string& text) {
  Graph graph = graph::parse_graph(text, {});
  graph::verify(graph, context().ops);
  return graph;
}

Graph run_pass(const Graph& graph, std::string_view pass) {
  Graph result = transform::find_pass(pass).run(graph, context());
  graph::verify(result, context().ops);
  return result;
}

std::string after(const std::string& text, std::string_view pass) {
  return graph::to_string(run_pass(parse(text), pass));
}

std::vector<RefTensor> random_inputs(const Graph& graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<RefTensor> inputs;
  for (const ValueId id : graph.inputs) {
    RefTensor t = RefTensor::zeros(graph.value(id).type);
    for (double& x : t.floats) x = static_cast<double>(std::uniform_int_distribution<int>(-64, 64)(random)) / 64;
    for (int64_t& x : t.ints) x = std::uniform_int_distribution<int64_t>(0, t.type.type.is_bool() ? 1 : 5)(random);
    inputs.push_back(std::move(t));
  }
  return inputs;
}

std::vector<RefTensor> outputs_of(const Graph& graph, const std::vector<RefTensor>& inputs) {
  const std::vector<RefTensor> values = graph::evaluate(graph, context().ops, inputs, graph::Rounding::kNone);
  std::vector<RefTensor> outputs;
  for (const ValueId id : graph.outputs) outputs.push_back(values.at(id));
  return outputs;
}

namespace {

bool is_close(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return true;
  return std::isfinite(a) && std::isfinite(b) && std::abs(a - b) <= tolerance * (1 + std::abs(a));
}

// The error word (graph/error_output.h), which a pass may add, is no output of the model.
size_t model_outputs(const Graph& graph) {
  return graph.outputs.size() - (graph.find_value(graph::kErrorOutput) == graph::kAbsent ? 0 : 1);
}

void expect_same_interface(const Graph& a, const Graph& b) {
  ASSERT_EQ(a.inputs.size(), b.inputs.size());
  ASSERT_EQ(model_outputs(a), model_outputs(b));
  const auto expect_equal = [&](ValueId x, ValueId y) {
    EXPECT_EQ(a.value(x).name, b.value(y).name);
    EXPECT_EQ(a.value(x).type, b.value(y).type);
  };
  for (size_t i = 0; i < a.inputs.size(); ++i) expect_equal(a.inputs[i], b.inputs[i]);
  for (size_t i = 0; i < model_outputs(a); ++i) expect_equal(a.outputs[i], b.outputs[i]);
}

void expect_same_outputs(const Graph& before, const Graph& after, const std::vector<RefTensor>& inputs,
                         double tolerance) {
  const std::vector<RefTensor> wanted = outputs_of(before, inputs);
  const std::vector<RefTensor> got = outputs_of(after, inputs);
  for (size_t k = 0; k < model_outputs(before); ++k) {
    ASSERT_EQ(wanted[k].type, got[k].type);
    for (int64_t i = 0; i < wanted[k].type.elements(); ++i) {
      ASSERT_TRUE(is_close(wanted[k].at(i), got[k].at(i), tolerance))
          << "output " << before.value(before.outputs[k]).name << " element " << i << ": " << wanted[k].at(i)
          << ", now " << got[k].at(i);
    }
  }
}

}  // namespace

void expect_same_function(const Graph& before, const Graph& after, double tolerance, uint64_t seed) {
  expect_same_interface(before, after);
  expect_same_outputs(before, after, random_inputs(before, seed), tolerance);
}

void expect_same_special_values(const Graph& before, const Graph& after, double tolerance) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double special : {std::nan(""), kInfinity, -kInfinity, 6e4}) {
    SCOPED_TRACE(special);
    // Each place of a window, and each phase of a stride, sees one: the places move.
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      std::vector<RefTensor> inputs = random_inputs(before, seed);
      for (RefTensor& t : inputs) {
        const size_t count = t.floats.size();
        for (size_t k = 0; k < 2 && count > 0; ++k) t.floats[(seed * 13 + k * (count / 2 + 7)) % count] = special;
      }
      expect_same_outputs(before, after, inputs, tolerance);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

Graph widen(const Graph& graph) {
  Graph wide = graph;
  for (graph::Value& value : wide.values) {
    if (value.type.type != DataType::f32()) continue;
    if (value.is_constant()) {
      RefTensor t = RefTensor::from_bytes(value.type, *value.constant);
      t.type.type = DataType::f64();
      value.constant = share(t.to_bytes());
    }
    value.type.type = DataType::f64();
  }
  for (graph::Node& node : wide.nodes) {
    if (node.op == "cast" && node.string_attr("to") == "f32") node.attrs["to"] = std::string("f64");
  }
  graph::verify(wide, context().ops);
  return wide;
}

int count_nodes(const Graph& graph, std::string_view op) {
  int count = 0;
  for (const graph::Node& node : graph.nodes) {
    count += node.is_group() ? count_nodes(*node.body, op) : node.op == op;
  }
  return count;
}

}  // namespace tw::testing
