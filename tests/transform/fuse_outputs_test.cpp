// Which groups become one with several outputs, that this keeps the function, and that every edge has its reason.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/transform/graph_tools.h"

namespace tw::transform {
namespace {

using graph::Graph;
using testing::parse;

TransformContext context_of(DeviceKind kind, ReasonLog* log = nullptr) {
  TransformContext context = testing::context();
  context.target.kind = kind;
  context.log = log;
  return context;
}

// Operators of the groups in order, with the names of their outputs: "matmul+relu:a,y".
std::string groups_of(const Graph& graph) {
  std::string text;
  for (const graph::Node& node : graph.nodes) {
    std::string ops, outputs;
    if (!node.is_group()) ops = node.op;
    if (node.is_group()) {
      for (const graph::Node& inner : node.body->nodes) ops += (ops.empty() ? "" : "+") + inner.op;
    }
    for (const graph::ValueId out : node.outputs) outputs += (outputs.empty() ? "" : ",") + graph.value(out).name;
    text += (text.empty() ? "" : " ") + ops + ":" + outputs;
  }
  return text;
}

struct Fused {
  std::string groups;
  ReasonLog log;
  Graph before, after;
  // The rule of an edge, and whether it is fused: "+points", "-cycle".
  std::string rule(const std::string& value, const std::string& reader) const {
    const Graph flat = before;
    for (const graph::Node& node : flat.nodes) {
      if (node.name != reader) continue;
      for (const EdgeFate fate : {EdgeFate::kFused, EdgeFate::kApart}) {
        const Why* why = log.find(fate, flat, flat.find_value(value), node);
        if (why != nullptr && fate == EdgeFate::kFused) return "+" + why->rule;
        if (why != nullptr) return "-" + why->rule;
      }
    }
    return "none";
  }
};

using Passes = std::vector<std::string_view>;

Fused fused(const std::string& text, DeviceKind kind = DeviceKind::kCpu,
            const Passes& passes = {"fuse", "fuse-outputs"}) {
  Fused out;
  out.before = parse(text);
  const TransformContext context = context_of(kind, &out.log);
  out.after = out.before;
  for (const std::string_view pass : passes) out.after = find_pass(pass).run(out.after, context);
  graph::verify(out.after, context.ops);
  testing::expect_same_function(out.before, out.after, 0);
  testing::expect_same_function(out.before, testing::run_pass(out.after, "partition"), 0);
  out.groups = groups_of(out.after);
  return out;
}

TEST(FuseOutputs, APreActivationLeavesBesideItsActivation) {
  const char* text = R"(graph g {
  input x : f32[8, 3]
  input w : f32[3, 16]
  input b : f32[16]
  m : f32[8, 16] = matmul(x, w) as m
  a : f32[8, 16] = add(m, b) as a
  y : f32[8, 16] = relu(a) as y
  output y, a
})";
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    const Fused f = fused(text, kind);
    EXPECT_EQ(f.groups, "matmul+add+relu:a,y");
    EXPECT_EQ(f.rule("a", "y"), "+points");
    EXPECT_EQ(f.rule("m", "a"), "+epilogue");
  }
}

TEST(FuseOutputs, AProductLeavesBesideItsActivation) {
  EXPECT_EQ(fused(R"(graph g {
  input x : f32[8, 3]
  input w : f32[3, 16]
  m : f32[8, 16] = matmul(x, w) as m
  y : f32[8, 16] = relu(m) as y
  z : f32[8, 16] = tanh(y) as z
  output m, y, z
})")
                .groups,
            "matmul+relu+tanh:m,y,z");
}

// The gradients of a norm's bias and scale; sums of rows are other kernels.
TEST(FuseOutputs, SumsOfTheSameColumnsAreSiblings) {
  const char* text = R"(graph g {{
  input d : f32[32, 16]
  input x : f32[32, 16]
  b : f32[1, 16] = reduce_sum(d) {{axes = [0], keepdims = 1}} as b
  m : f32[32, 16] = mul(d, x) as m
  s : {0}
  output b, s
}})";
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    const auto groups = [&](const char* last) { return fused(fmt::format(fmt::runtime(text), last), kind).groups; };
    EXPECT_EQ(groups("f32[1, 16] = reduce_sum(m) {axes = [0], keepdims = 1} as s"), "reduce_sum+mul+reduce_sum:b,s");
    EXPECT_EQ(groups("f32[32, 1] = reduce_sum(m) {axes = [1], keepdims = 1} as s"), "reduce_sum:b mul+reduce_sum:s");
    EXPECT_EQ(groups("f32[1, 16] = reduce_max(m) {axes = [0], keepdims = 1} as s"), "reduce_sum:b mul+reduce_max:s");
  }
}

// b is computed from a by a product, and needed beside a: one group would wait for itself.
// A norm's gradient, those of its scale and bias, and the sums of the first, as of a bias before the norm.
constexpr const char* kNormGradient = R"(graph g {{
  input d : f32[32, {0}]
  input n : f32[32, {0}]
  input s : f32[{0}]
  input r : f32[32, 1]
  h : f32[32, {0}] = mul(d, s) as h
  a : f32[32, 1] = reduce_mean(h) {{axes = [1], keepdims = 1}} as a
  hn : f32[32, {0}] = mul(h, n) as hn
  b : f32[32, 1] = reduce_mean(hn) {{axes = [1], keepdims = 1}} as b
  nb : f32[32, {0}] = mul(n, b) as nb
  c : f32[32, {0}] = sub(h, a) as c
  e : f32[32, {0}] = sub(c, nb) as e
  dx : f32[32, {0}] = mul(e, r) as dx
  dn : f32[32, {0}] = mul(d, n) as dn
  ds : f32[{0}] = reduce_sum(dn) {{axes = [0], keepdims = 0}} as ds
  db : f32[{0}] = reduce_sum(d) {{axes = [0], keepdims = 0}} as db
  dz : f32[{0}] = reduce_sum(dx) {{axes = [0], keepdims = 0}} as dz
  output dx, ds, db, dz
}})";

size_t count_groups(const Fused& f) { return static_cast<size_t>(std::ranges::count(f.groups, ' ')) + 1; }

TEST(FuseOutputs, RowsAreOneKernelWithSumsOfTheirColumns) {
  const std::string text = fmt::format(fmt::runtime(kNormGradient), 64);
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    const Fused before = fused(text, kind);
    EXPECT_EQ(count_groups(before), 3U) << before.groups;
    EXPECT_EQ(before.rule("dx", "dz"), "-kernel");
    const Fused after = fused(text, kind, {"fuse", "fuse-outputs", "fuse-row-sums"});
    EXPECT_EQ(count_groups(after), 1U) << after.groups;
    EXPECT_EQ(after.rule("dx", "dz"), "+row-sums");
  }
}

// No block has equal shares of these rows.
TEST(FuseOutputs, RowsOfOtherLengthsStayApartFromTheirSums) {
  const std::string text = fmt::format(fmt::runtime(kNormGradient), 50);
  const Passes passes = {"fuse", "fuse-outputs", "fuse-row-sums"};
  EXPECT_EQ(fused(text, DeviceKind::kCuda, passes).groups, fused(text, DeviceKind::kCuda).groups);
}

TEST(FuseOutputs, NoGroupWaitsForItself) {
  const Fused f = fused(R"(graph g {
  input x : f32[8, 8]
  input w : f32[8, 8]
  m : f32[8, 8] = matmul(x, w) as m
  a : f32[8, 8] = relu(m) as a
  p : f32[8, 8] = matmul(a, w) as p
  b : f32[8, 8] = tanh(p) as b
  c : f32[8, 8] = sigmoid(b) as c
  d : f32[8, 8] = mul(a, c) as d
  output d, b
})");
  EXPECT_EQ(f.groups, "matmul+relu:a matmul+tanh+sigmoid+mul:b,d");
  EXPECT_EQ(fused(R"(graph g {
  input x : f32[8, 8]
  a : f32[8, 8] = relu(x) as a
  p : f32[8, 8] = matmul(a, a) as p
  s : f32[8, 8] = softmax(p) {axis = 1} as s
  d : f32[8, 8] = mul(a, s) as d
  output d, s
})")
                .rule("a", "d"),
            "-cycle");
}

TEST(FuseOutputs, StatisticsLeaveBesideTheirRows) {
  const Fused f = fused(R"(graph g {
  input x : f32[8, 64]
  const n : f32[] = [1e-5]
  mean : f32[8, 1] = reduce_mean(x) {axes = [1], keepdims = 1} as mean
  d : f32[8, 64] = sub(x, mean) as d
  q : f32[8, 64] = mul(d, d) as q
  v : f32[8, 1] = reduce_mean(q) {axes = [1], keepdims = 1} as v
  e : f32[8, 1] = add(v, n) as e
  s : f32[8, 1] = sqrt(e) as s
  i : f32[8, 1] = reciprocal(s) as i
  y : f32[8, 64] = mul(d, i) as y
  output y, mean, i
})");
  EXPECT_EQ(f.groups, "reduce_mean+sub+mul+reduce_mean+add+sqrt+reciprocal+mul:mean,i,y");
  EXPECT_EQ(f.rule("i", "y"), "+statistics");
}

// What a norm reads, and others read later.
// A row of sums at computed indices would compare each element with each index.
TEST(FuseOutputs, SumsAtComputedIndicesKeepTheirLines) {
  const Fused f = fused(R"(graph g {
  input x : f32[24, 64]
  input i : i64[24]
  y : f32[40, 64] = scatter_sum(x, i) {axis = 0, extent = 40} as y
  q : f32[40, 64] = mul(y, y) as q
  s : f32[40, 1] = reduce_sum(q) {axes = [1], keepdims = 1} as s
  t : f32[40, 64] = tanh(y) as t
  output y, s, t
})");
  EXPECT_EQ(f.groups, "scatter_sum:y mul+reduce_sum:s tanh:t");
}

TEST(FuseOutputs, RowsLeaveBesideTheirNorm) {
  EXPECT_EQ(fused(R"(graph g {
  input t : f32[8, 64]
  input p : f32[8, 64]
  input s : f32[64]
  x : f32[8, 64] = add(t, p) as x
  y : f32[8, 64] = layer_norm(x, s) {axis = 1} as y
  output y, x
})")
                .groups,
            "add+layer_norm:x,y");
}

TEST(FuseOutputs, ColumnSumsAreTakenBesideTheirValue) {
  const Fused f = fused(R"(graph g {
  input x : f32[64, 32]
  input g : f32[64, 32]
  v : f32[64, 32] = mul(x, g) as v
  s : f32[32] = reduce_sum(v) {axes = [0], keepdims = 0} as s
  output v, s
})");
  EXPECT_EQ(f.groups, "mul+reduce_sum:v,s");
  EXPECT_EQ(f.rule("v", "s"), "+column-sums");
}

TEST(FuseOutputs, SiblingsReadTheirValueOnce) {
  EXPECT_EQ(fused(R"(graph g {
  input x : f32[8, 16]
  y : f32[8, 16] = relu(x) as y
  z : f32[8, 16] = tanh(x) as z
  output y, z
})")
                .groups,
            "relu+tanh:y,z");
  EXPECT_EQ(fused(R"(graph g {
  input x : f32[8, 16]
  y : f32[8, 16] = relu(x) as y
  z : f32[16, 8] = transpose(x) {perm = [1, 0]} as z
  output y, z
})")
                .groups,
            "relu:y transpose:z");
}

TEST(FuseOutputs, ContractionsKeepTheirTiles) {
  const Fused f = fused(R"(graph g {
  input x : f32[8, 8]
  input w : f32[8, 8]
  m : f32[8, 8] = matmul(x, w) as m
  a : f32[8, 8] = relu(m) as a
  p : f32[8, 8] = matmul(a, w) as p
  s : f32[8, 8] = softmax(p) {axis = 1} as s
  t : f32[8, 8] = transpose(a) {perm = [1, 0]} as t
  output s, t
})");
  EXPECT_EQ(f.groups, "matmul+relu:a matmul:p softmax:s transpose:t");
  EXPECT_EQ(f.rule("a", "p"), "-contraction");
  EXPECT_EQ(f.rule("p", "s"), "-tile");
  EXPECT_EQ(f.rule("a", "t"), "-order");
}

// Edges of a graph of groups without a word, as text.
std::string without_reason(const Graph& groups, const ReasonLog& log) {
  std::string found;
  const std::vector<int> producers = groups.producers();
  const auto check = [&](const graph::Node& group, const graph::Node& reader, graph::ValueId in) {
    const Graph& body = *group.body;
    const bool inside = body.producer(in) >= 0;
    const auto position = std::ranges::find(body.inputs, in) - body.inputs.begin();
    if (!inside && (position == std::ssize(body.inputs) || producers[group.inputs[position]] < 0)) return;
    if (log.find(inside ? EdgeFate::kFused : EdgeFate::kApart, body, in, reader) == nullptr)
      found += fmt::format("{} to {} ({}) of {}\n", body.value(in).name, reader.name, reader.op, group.name);
  };
  for (const graph::Node& group : groups.nodes) {
    for (const graph::Node& reader : group.body->nodes) {
      for (const graph::ValueId in : reader.inputs) in == graph::kAbsent ? void() : check(group, reader, in);
    }
  }
  for (const graph::Value& value : groups.values) {
    if (!value.is_constant() && log.find_layout(value.name) == nullptr) found += value.name + "\n";
  }
  return found;
}

// Of random graphs: the same function, and a word about each edge between two groups or in one.
TEST(FuseOutputs, RandomGraphsKeepTheirFunctionAndSayWhy) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    ReasonLog log;
    const TransformContext context = context_of(seed % 2 == 0 ? DeviceKind::kCpu : DeviceKind::kCuda, &log);
    const Graph before = testing::random_graph(seed);
    const Graph after = transform(before, context, {});
    testing::expect_same_function(before, after, 1e-9);
    EXPECT_EQ(without_reason(after, log), "");
  }
}

}  // namespace
}  // namespace tw::transform
