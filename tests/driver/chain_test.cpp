// Chains as they are compiled: what the pass fuse-chains merges is taken by the family chain, and right.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "artefact/session.h"
#include "artefact/verify.h"
#include "plan/plan.h"
#include "tests/driver/random_model.h"
#include "tests/graph/sample.h"

namespace tw::driver::test {
namespace {

using graph::test::add;

struct Attention {
  int64_t batch = 1, heads = 1, queries = 1, keys = 1, depth = 1, values = 1;
  bool by_position = true;    // operands stored [batch, position, head, depth], as projections leave them
  std::vector<int64_t> mask;  // its shape; empty: none
};

// softmax(q k^T / 4 + mask) v.
graph::Graph model(const Attention& a) {
  graph::Graph g;
  g.name = "attention";
  const auto input = [&](const char* name, const Shape& shape) {
    return g.add_input(name, TensorType{DataType::f32(), shape});
  };
  // [batch, heads, positions, width] or, for the keys, [batch, heads, width, positions].
  const auto operand = [&](const char* name, int64_t positions, int64_t width, bool transposed) {
    const Shape stored =
        a.by_position ? Shape{a.batch, positions, a.heads, width} : Shape{a.batch, a.heads, positions, width};
    const auto x = input(name, stored);
    const int64_t p = a.by_position ? 1 : 2;
    const int64_t h = a.by_position ? 2 : 1;
    const std::vector<int64_t> perm = transposed ? std::vector<int64_t>{0, h, 3, p} : std::vector<int64_t>{0, h, p, 3};
    return a.by_position || transposed ? add(g, "transpose", {x}, {{"perm", perm}}) : x;
  };
  const auto q = operand("q", a.queries, a.depth, false);
  const auto k = operand("k", a.keys, a.depth, true);
  const auto v = operand("v", a.keys, a.values, false);
  const auto quarter =
      g.add_constant("quarter", TensorType{DataType::f32(), {}},
                     share(std::vector<std::byte>{std::byte{0}, std::byte{0}, std::byte{0x80}, std::byte{0x3e}}));
  graph::ValueId scores = add(g, "mul", {add(g, "matmul", {q, k}), quarter});
  if (!a.mask.empty()) scores = add(g, "add", {scores, input("mask", a.mask)});
  const auto weights = add(g, "softmax", {scores}, {{"axis", int64_t{3}}});
  graph::ValueId y = add(g, "matmul", {weights, v});
  if (a.by_position) y = add(g, "transpose", {y}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  g.outputs = {y};
  return g;
}

// Whether a chain pays is a question of machine parameters: these are the same on every machine.
CompileOptions usual() {
  CompileOptions options;
  options.target = "cpu:x86-64-v3";
  return options;
}

bool is_chain(const Compiled& compiled) {
  return std::ranges::any_of(compiled.plan.entries.at(0).groups,
                             [](const plan::GroupPlan& g) { return g.family == "chain"; });
}

void expect_right(const graph::Graph& source, const CompileOptions& options) {
  const artefact::VerifyReport report = artefact::verify_graph(source, options, random_arrays(source, 3), {});
  for (const artefact::GroupCheck& group : report.groups) {
    for (const WorstElement& w : group.outputs) EXPECT_TRUE(w.ok()) << group.family << ": " << w.wrong << " wrong";
  }
  EXPECT_TRUE(report.ok());
}

TEST(Chain, RandomAttention) {
  constexpr int kModels = 24;
  std::mt19937_64 random(7);
  const auto pick = [&](int64_t lo, int64_t hi) { return lo + static_cast<int64_t>(random() % (hi - lo + 1)); };
  for (int i = 0; i < kModels; ++i) {
    Attention a{pick(1, 2), pick(2, 4), pick(2, 70), pick(9, 90), pick(2, 33), pick(2, 40), pick(0, 1) == 1, {}};
    const std::vector<std::vector<int64_t>> masks = {
        {}, {a.keys}, {a.batch, 1, 1, a.keys}, {a.batch, 1, a.queries, a.keys}, {1, a.heads, a.queries, a.keys}};
    a.mask = masks[random() % masks.size()];
    SCOPED_TRACE(fmt::format("{} x {} heads, {} queries, {} keys, depth {}, {} values, by position {}, mask of rank {}",
                             a.batch, a.heads, a.queries, a.keys, a.depth, a.values, a.by_position, a.mask.size()));
    const graph::Graph source = model(a);
    EXPECT_TRUE(is_chain(compile_graph(source, usual())));
    expect_right(source, usual());
  }
}

TEST(Chain, IsSwitchedOffAndReplayed) {
  const graph::Graph source = model({1, 2, 40, 48, 16, 16, true, {}});
  const Compiled compiled = compile_graph(source, usual());
  ASSERT_TRUE(is_chain(compiled));
  CompileOptions replay = usual();
  replay.plan_text = plan::to_string(compiled.plan);
  EXPECT_EQ(artefact_bytes(compile_graph(source, replay)), artefact_bytes(compiled));
  CompileOptions off = usual();
  off.disabled_passes = {"fuse-chains"};
  EXPECT_FALSE(is_chain(compile_graph(source, off)));
  expect_right(source, off);
}

}  // namespace
}  // namespace tw::driver::test
