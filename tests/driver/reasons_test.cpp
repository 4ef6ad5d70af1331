// Reasons in plans: their text and back, that a compilation has one for each edge and each stored value, and what holds
// of those of any graph.
#include "plan/reasons.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "driver/compile.h"
#include "driver/entry_reasons.h"
#include "ops/list.h"
#include "plan/plan.h"
#include "support/error.h"
#include "targets/registry.h"
#include "transform/pass.h"
#include "transform/storage_order.h"

namespace tw::driver {
namespace {

using graph::Graph;

TEST(Reasons, TextGivesThemBack) {
  plan::Plan plan;
  plan.entries.push_back({"main", "hash", {}, "cpu:x86-64-v3"});
  plan::Reasons& r = plan.entries[0].reasons;
  r.edges.push_back({"a \"quoted\" value",
                     "from",
                     "to",
                     "what it computes",
                     "from+group",
                     "to group",
                     false,
                     {"cycle", "one: waits = for the other", {{"value_bytes", 1.5e9}, {"apart_ns", 0.125}}}});
  r.edges.push_back({"b", "c", "d", "e", "g", "g", true, {"map", "read at one point", {}}});
  r.values.push_back({"b", {"least-time", "row-major", {{"next_best_unit_ns", 1e12}}}});
  r.products.push_back({"MatMul 3", {"float-operand", "operand \"b\" (softmax) is not quantized", {}}});
  const std::string text = plan::to_string(plan);
  EXPECT_EQ(plan::parse_plan(text), plan) << text;
  EXPECT_EQ(plan::to_string(plan::parse_plan(text)), text);
}

TEST(Reasons, BrokenLinesAreRefused) {
  const std::string head = "tilewright plan 2\ntarget cpu:x86-64\nentry main\ngraph h\n";
  const char* whole = "edge \"v\" \"a\" \"b\" \"w\" \"g\" \"h\" fused \"rule\" : \"text\"";
  EXPECT_EQ(plan::parse_plan(head + whole + "\n").entries.at(0).reasons.edges.size(), 1u);
  for (const char* line :
       {"edge \"v\"", "edge \"v\" \"a\" \"b\" \"w\" \"g\" \"h\" joined \"rule\" : \"text\"",
        "edge \"v\" \"a\" \"b\" \"g\" \"h\" fused \"rule\" : \"text\"", "product \"rule\" : \"text\"",
        "why \"v\" \"rule\" n=\"x\" : \"text\"", "why \"v\" \"rule\" : \"text\" more"})
    EXPECT_THROW(plan::parse_plan(head + line + "\n"), UserError) << line;
}

TEST(Reasons, ACompilationHasOneForEveryEdgeAndValue) {
  const graph::Graph graph = graph::parse_graph(R"(graph g {
  input x : f32[8, 16]
  input w : f32[16, 16]
  m : f32[8, 16] = matmul(x, w) as m
  y : f32[8, 16] = relu(m) as y
  s : f32[8, 16] = softmax(y) {axis = 1} as s
  v : f32[16, 8] = reshape(s) {shape = [16, 8]} as v
  output v, m
})",
                                                {});
  CompileOptions options;
  options.target = "cpu:x86-64-v3";
  const auto reasons_with = [&](std::vector<std::string> disabled) {
    options.disabled_passes = std::move(disabled);
    return compile_graph(graph, options).plan.entries.at(0).reasons;
  };
  const plan::Reasons r = reasons_with({});
  EXPECT_EQ(r.edges.size(), 3u);
  EXPECT_EQ(r.values.size(), 5u);  // no word about what stays inside
  for (const plan::EdgeReason& e : r.edges) {
    EXPECT_FALSE(e.why.rule.empty() || e.why.rule == "off" || e.why.text.empty()) << e.value << " to " << e.to;
    EXPECT_EQ(e.is_fused, e.value == "y") << e.value << ": " << e.why.text;
  }
  for (const plan::EdgeReason& e : reasons_with({"fuse", "fuse-outputs"}).edges) EXPECT_EQ(e.why.rule, "off");
}

const char* kPreActivation = R"(graph g {
  input x : f32[8, 16]
  input w : f32[16, 16]
  m : f32[8, 16] = matmul(x, w) as m
  y : f32[8, 16] = relu(m) as y
  output m, y
})";

TEST(Reasons, AReplayMakesThemAnew) {
  CompileOptions options;
  options.target = "cpu:x86-64-v3";
  const Graph graph = graph::parse_graph(kPreActivation, {});
  const plan::Plan made = compile_graph(graph, options).plan;
  plan::Plan planted = made;
  planted.entries.at(0).reasons.edges.at(0).why.text = "somebody wrote this";
  planted.entries[0].reasons.values.clear();
  options.plan_text = plan::to_string(planted);
  EXPECT_EQ(compile_graph(graph, options).plan.entries.at(0).reasons, made.entries[0].reasons);
}

TEST(Reasons, WhatMeasuringLeftOutHasItsTimes) {
  CompileOptions options;
  options.target = "cpu:x86-64-v3";
  const Graph graph = graph::parse_graph(kPreActivation, {});
  plan::Plan plan = compile_graph(graph, options).plan;
  const plan::EdgeReason fused = plan.entries.at(0).reasons.edges.at(0);
  EXPECT_TRUE(fused.is_fused) << fused.why.text;
  plan.entries[0].groups.clear();
  plan.entries[0].passes = {{"fuse-outputs", "off", 2.5, 4, true}};
  options.plan_text = plan::to_string(plan);
  const plan::EdgeReason apart = compile_graph(graph, options).plan.entries.at(0).reasons.edges.at(0);
  EXPECT_FALSE(apart.is_fused);
  EXPECT_EQ(apart.why.rule, "raced");
  EXPECT_NE(apart.why.text.find("fuse-outputs"), std::string::npos) << apart.why.text;
  const std::vector<std::pair<std::string, double>> numbers = {
      {"value_bytes", 512}, {"apart_us", 2.5}, {"fused_us", 4}, {"readers", 1}, {"readings", 1}};
  EXPECT_EQ(apart.why.numbers, numbers);
}

double number_of(const Why& why, std::string_view name) {
  const auto found = std::ranges::find(why.numbers, name, &std::pair<std::string, double>::first);
  return found == why.numbers.end() ? -1 : found->second;
}

// A product of few tiles and many steps is summed in parts on a GPU: the epilogue is in a second kernel.
TEST(Reasons, FusedEdgesSayHowManyKernelsThereAre) {
  for (const bool in_parts : {false, true}) {
    const Graph graph = graph::parse_graph(fmt::format(R"(graph g {{
  input x : f16[64, {0}]
  input w : f16[{0}, 64]
  a : f16[64, 64] = matmul(x, w) as a
  y : f16[64, 64] = relu(a) as y
  output y
}})",
                                                       in_parts ? 8192 : 64),
                                           {});
    CompileOptions options;
    options.target = "cuda:sm_90a";
    const plan::EdgeReason edge = compile_graph(graph, options).plan.entries.at(0).reasons.edges.at(0);
    EXPECT_TRUE(edge.is_fused);
    EXPECT_EQ(number_of(edge.why, "kernels"), in_parts ? 2 : 1) << edge.why.text;
    EXPECT_EQ(edge.why.text.find("2 kernels") != std::string::npos, in_parts);
    EXPECT_EQ(number_of(edge.why, "between_bytes") > 64 * 64, in_parts);
  }
}

// y reads x 4 times for each of its 6 columns of 2 x 2 windows, whose strides are 1.
TEST(Reasons, OthersSayHowOftenElementsAreRead) {
  const Graph graph = graph::parse_graph(R"(graph g {
  input t : f32[1, 3, 5, 5]
  input w : f32[6, 3, 2, 2]
  input v : f32[6, 3, 1, 1]
  x : f32[1, 3, 5, 5] = relu(t) as x
  y : f32[1, 6, 4, 4] = conv(x, w) as y
  z : f32[1, 6, 5, 5] = conv(x, v) as z
  output y, z
})",
                                         {});
  CompileOptions options;
  options.target = "cpu:x86-64-v3";
  const plan::Plan plan = compile_graph(graph, options).plan;
  for (const plan::EdgeReason& edge : plan.entries.at(0).reasons.edges) {
    if (edge.from != "x") continue;
    EXPECT_EQ(number_of(edge.why, "readers"), 2);
    EXPECT_EQ(number_of(edge.why, "readings"), edge.to == "y" ? 6 * 16 * 4 / 25.0 : 6) << edge.to;
  }
}

// A concatenation reads each element of each input once, a convolution its bias once for each point of a channel.
TEST(Reasons, ReadingsOfPartsAndBiases) {
  const Graph graph = graph::parse_graph(R"(graph g {
  input s : f32[1, 4, 6, 6]
  input t : f32[1, 4, 6, 6]
  input w : f32[8, 8, 1, 1]
  input c : f32[8]
  p : f32[1, 4, 6, 6] = relu(s) as p
  q : f32[1, 4, 6, 6] = softmax(t) {axis = 3} as q
  r : f32[1, 8, 6, 6] = concat(p, q) {axis = 1} as r
  b : f32[8] = softmax(c) {axis = 0} as b
  y : f32[1, 8, 6, 6] = conv(r, w, b) as y
  output y, p, b
})",
                                         {});
  CompileOptions options;
  options.target = "cpu:x86-64-v3";
  const plan::Plan plan = compile_graph(graph, options).plan;
  std::map<std::string, double> readings;
  for (const plan::EdgeReason& edge : plan.entries.at(0).reasons.edges) {
    if (!edge.is_fused) readings[edge.from + edge.to] = number_of(edge.why, "readings");
  }
  EXPECT_EQ(readings["qr"], 1);
  EXPECT_EQ(readings["by"], 36);
  EXPECT_EQ(readings["ry"], 8);
}

// Each element of s is a factor of a row of products and of a column; r holds each of p twice.
TEST(Reasons, ReadingsOfOneValueForTwoOperands) {
  const Graph graph = graph::parse_graph(R"(graph g {
  input x : f32[6, 6]
  input y : f32[2, 5]
  s : f32[6, 6] = softmax(x) {axis = 0} as s
  m : f32[6, 6] = matmul(s, s) as m
  q : f32[2, 5] = softmax(y) {axis = 0} as q
  r : f32[4, 5] = concat(q, q) {axis = 0} as r
  output m, r
})",
                                         {});
  CompileOptions options;
  options.target = "cpu:x86-64-v3";
  const plan::Plan plan = compile_graph(graph, options).plan;
  for (const plan::EdgeReason& edge : plan.entries.at(0).reasons.edges) {
    if (edge.is_fused) continue;
    EXPECT_EQ(number_of(edge.why, "readings"), edge.from == "s" ? 12 : 2) << edge.from << " to " << edge.to;
  }
}

// Windows of 2 x 2 at every second point read 36 of 49 points once, a slice a third of its data.
TEST(Reasons, ReadingsOfWindowsAndSlices) {
  const Graph graph = graph::parse_graph(R"(graph g {
  input t : f32[1, 4, 8, 8]
  input u : f32[4, 4, 2, 2]
  input a : f32[5, 16]
  input w : f32[16, 9]
  x : f32[1, 4, 7, 7] = conv(t, u) as x
  y : f32[1, 4, 3, 3] = max_pool(x) {kernel_shape = [2, 2], strides = [2, 2]} as y
  m : f32[5, 9] = matmul(a, w) as m
  z : f32[5, 3] = slice(m) {starts = [0, 3], steps = [1, 1], extents = [5, 3]} as z
  output y, z
})",
                                         {});
  CompileOptions options;
  options.target = "cpu:x86-64-v3";
  const plan::Plan plan = compile_graph(graph, options).plan;
  for (const plan::EdgeReason& edge : plan.entries.at(0).reasons.edges) {
    ASSERT_FALSE(edge.is_fused) << edge.from;
    EXPECT_DOUBLE_EQ(number_of(edge.why, "readings"), edge.to == "y" ? 36 / 49.0 : 1 / 3.0) << edge.to;
  }
}

// ---- What holds of any graph.

// A block of a residual network, and one of a transformer with slices of one product, a mask and a norm.
const char* kResidual = R"text(graph g {
  input x : f32[1, 16, 14, 14]
  input u : f32[16, 16, 1, 1]
  input w : f32[16, 16, 3, 3]
  input v : f32[32, 16, 1, 1]
  a : f32[1, 16, 14, 14] = conv(x, u) as a
  b : f32[1, 16, 14, 14] = relu(a) as b
  c : f32[1, 16, 14, 14] = conv(b, w) {pads = [1, 1, 1, 1]} as c
  d : f32[1, 16, 14, 14] = relu(c) as d
  e : f32[1, 16, 14, 14] = conv(d, u) as e
  r : f32[1, 16, 14, 14] = add(e, b) as r
  s : f32[1, 16, 14, 14] = relu(r) as s
  t : f32[1, 32, 14, 14] = conv(s, v) as t
  z : f32[1, 16, 14, 14] = conv(s, w) {pads = [1, 1, 1, 1]} as z
  q : f32[1, 16, 14, 14] = add(z, s) as q
  p : f32[1, 16, 1, 1] = global_avg_pool(q) as p
  y : f32[1, 16] = reshape(p) {shape = [1, 16]} as y
  output y, t
})text";

const char* kTransformer = R"text(graph g {
  input x : f32[1, 64, 96]
  input mask : f32[1, 1, 1, 64]
  input wq : f32[96, 288]
  input wo : f32[96, 96]
  input g1 : f32[96]
  n : f32[1, 64, 96] = layer_norm(x, g1) {axis = 2} as n
  h : f32[1, 64, 288] = matmul(n, wq) as h
  q0 : f32[1, 64, 96] = slice(h) {starts = [0, 0, 0], steps = [1, 1, 1], extents = [1, 64, 96]} as cut
  k0 : f32[1, 64, 96] = slice(h) {starts = [0, 0, 96], steps = [1, 1, 1], extents = [1, 64, 96]} as cut
  v0 : f32[1, 64, 96] = slice(h) {starts = [0, 0, 192], steps = [1, 1, 1], extents = [1, 64, 96]} as cut
  q1 : f32[1, 64, 3, 32] = reshape(q0) {shape = [1, 64, 3, 32]} as q1
  k1 : f32[1, 64, 3, 32] = reshape(k0) {shape = [1, 64, 3, 32]} as k1
  v1 : f32[1, 64, 3, 32] = reshape(v0) {shape = [1, 64, 3, 32]} as v1
  q : f32[1, 3, 64, 32] = transpose(q1) {perm = [0, 2, 1, 3]} as q
  k : f32[1, 3, 32, 64] = transpose(k1) {perm = [0, 2, 3, 1]} as k
  v : f32[1, 3, 64, 32] = transpose(v1) {perm = [0, 2, 1, 3]} as v
  s : f32[1, 3, 64, 64] = matmul(q, k) as s
  m : f32[1, 3, 64, 64] = add(s, mask) as m
  p : f32[1, 3, 64, 64] = softmax(m) {axis = 3} as p
  o : f32[1, 3, 64, 32] = matmul(p, v) as o
  o1 : f32[1, 64, 3, 32] = transpose(o) {perm = [0, 2, 1, 3]} as o1
  o2 : f32[1, 64, 96] = reshape(o1) {shape = [1, 64, 96]} as o2
  o3 : f32[1, 64, 96] = matmul(o2, wo) as o3
  y : f32[1, 64, 96] = add(o3, x) as y
  z : f32[1, 64, 96] = layer_norm(y, g1) {axis = 2} as z
  output z, k
})text";

struct Said {
  Graph groups;
  plan::Reasons reasons;
  // The group of the operator that computes `value`.
  const graph::Node& group_of(const std::string& value) const {
    return *std::ranges::find_if(groups.nodes, [&](const graph::Node& group) {
      return std::ranges::any_of(group.body->nodes, [&](const graph::Node& inner) {
        return std::ranges::any_of(inner.outputs, [&](graph::ValueId v) { return group.body->value(v).name == value; });
      });
    });
  }
};

Said said_of(const char* text, const std::string& target) {
  const graph::OpTable ops = ops::all_ops();
  transform::ReasonLog log;
  transform::TransformContext context{ops, targets::find_target(target).info};
  context.log = &log;
  if (target.starts_with("cuda")) context.dtype = DataType::f16();
  Said said{transform::transform(graph::parse_graph(text, {}), context, {}), {}};
  said.reasons = reasons_of(said.groups, log);
  return said;
}

bool has_number(const Why& why, std::string_view name) {
  return std::ranges::count(why.numbers, name, &std::pair<std::string, double>::first) == 1;
}

void expect_no_empty_comparison(const Why& why) {
  if (why.text.find("takes longer") == std::string::npos) return;
  for (const auto& [name, value] : why.numbers) EXPECT_NE(value, 0) << name << ": " << why.text;
}

TEST(Reasons, AreTrueOfTheirEdges) {
  int views = 0;
  for (const char* text : {kResidual, kTransformer}) {
    for (const char* target : {"cpu:x86-64-v3", "cuda:sm_90a"}) {
      const Said said = said_of(text, target);
      EXPECT_FALSE(said.reasons.edges.empty());
      std::map<std::string, int> readers;
      for (const plan::EdgeReason& e : said.reasons.edges) ++readers[e.value];
      std::set<std::pair<std::string, std::string>> ends;
      for (const plan::EdgeReason& e : said.reasons.edges) {
        SCOPED_TRACE(fmt::format("{}: {} to {}: {}: {}", target, e.value, e.to_value, e.why.rule, e.why.text));
        EXPECT_TRUE(ends.insert({e.value, e.to_value}).second) << "said twice";
        EXPECT_NE(e.why.rule, "off");
        EXPECT_TRUE(has_number(e.why, "value_bytes"));
        expect_no_empty_comparison(e.why);
        const graph::Node& group = said.group_of(e.to_value);
        EXPECT_EQ(group.name, e.to_group);
        if (e.is_fused) continue;
        const bool is_view = transform::is_view(*group.body, group.body->nodes.front());
        EXPECT_TRUE(e.why.rule != "chain" || readers[e.value] == 1);
        EXPECT_FALSE(e.why.rule == "order" && is_view);
        views += is_view ? 1 : 0;
      }
      for (const plan::ValueReason& v : said.reasons.values) {
        SCOPED_TRACE(fmt::format("{}: {}: {}: {}", target, v.value, v.why.rule, v.why.text));
        EXPECT_TRUE(has_number(v.why, "value_bytes"));
        EXPECT_GT(v.why.numbers.size(), 1u) << "nothing was compared";
        expect_no_empty_comparison(v.why);
      }
    }
  }
  EXPECT_GT(views, 0);
}

// With what a chain was compared, whether it paid or not.
TEST(Reasons, ChainsHaveTheirCosts) {
  for (const int64_t keys : {int64_t{64}, int64_t{40960}}) {
    const std::string text = fmt::format(R"(graph g {{
  input q : f32[1, 3, 64, 32]
  input k : f32[1, 3, 32, {0}]
  input v : f32[1, 3, {0}, 32]
  s : f32[1, 3, 64, {0}] = matmul(q, k) as s
  p : f32[1, 3, 64, {0}] = softmax(s) {{axis = 3}} as p
  o : f32[1, 3, 64, 32] = matmul(p, v) as o
  output o
}})",
                                         keys);
    const Said said = said_of(text.c_str(), "cpu:x86-64-v3");
    const plan::EdgeReason& last = said.reasons.edges.back();
    EXPECT_EQ(last.why.rule, "chain") << last.why.text;
    EXPECT_EQ(last.is_fused, keys == 64) << last.why.text;
    EXPECT_TRUE(has_number(last.why, "block_bytes"));
    for (const char* name : {"apart_ns", "together_ns", "inside_ns", "operands_ns", "lost_ns", "blocks", "block_rows"})
      EXPECT_EQ(has_number(last.why, name), last.is_fused) << name;
    EXPECT_EQ(has_number(last.why, "cache_bytes"), !last.is_fused);
  }
}

}  // namespace
}  // namespace tw::driver
