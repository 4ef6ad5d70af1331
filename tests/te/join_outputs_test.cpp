// Outputs of one space become one compute: the same values, and nothing reads an output any more.
#include "te/join_outputs.h"

#include <gtest/gtest.h>

#include "te/reads.h"
#include "tests/harness/loop_check.h"
#include "tests/harness/te_evaluate.h"

namespace tw::te {
namespace {

// Whole inputs: every value is exact in f64.
void expect_same(const Program& before, const Program& after) {
  const ValueMap inputs = testing::whole_inputs(before);
  const ValueMap want = evaluate(before, inputs), got = evaluate(after, inputs);
  ASSERT_EQ(before.outputs, after.outputs);
  for (const std::string& name : before.outputs) EXPECT_EQ(want.at(name).floats, got.at(name).floats) << name;
}

Program joined(const Program& before) {
  Program after = join_outputs(before);
  expect_same(before, after);
  return after;
}

struct Activation {
  Builder b;
  Tensor x = b.placeholder("x", DataType::f32(), {4, 6});
  Tensor pre = b.compute("pre", x.shape, [&](const auto& i) { return x(i) + float_imm(3); });
  Tensor y = b.compute("y", x.shape, [&](const auto& i) { return max(pre(i), float_imm(0)); });
};

TEST(JoinOutputs, WhatTheLastOneReadsIsComputedWithIt) {
  Activation a;
  const Program p = joined(a.b.finish("p", {a.pre, a.y}));
  ASSERT_EQ(p.computes.size(), 1u) << to_string(p);
  EXPECT_EQ(p.computes[0].outputs.size(), 2u);
  EXPECT_EQ(count_reads(p.computes[0], "pre"), 0);
}

TEST(JoinOutputs, OneOutputStays) {
  Activation a;
  const Program before = a.b.finish("p", {a.y});
  EXPECT_EQ(to_string(join_outputs(before)), to_string(before));
}

// What a stage between reads is computed before, and copied.
TEST(JoinOutputs, WhatOthersReadIsKept) {
  Builder b;
  const Tensor x = b.placeholder("x", DataType::f32(), {4, 6});
  const Tensor pre = b.compute("pre", x.shape, [&](const auto& i) { return x(i) + float_imm(3); });
  const Tensor t = b.compute("t", x.shape, [&](const auto& i) { return pre(i) * pre(i); });
  const Tensor z = b.compute("z", x.shape, [&](const auto& i) { return t(i) + pre(i); });
  const Program p = joined(b.finish("p", {pre, z}));
  ASSERT_EQ(p.computes.size(), 3u) << to_string(p);
  EXPECT_EQ(p.computes[0].name(), "pre_kept");
  EXPECT_EQ(p.computes.back().outputs.size(), 2u);
}

TEST(JoinOutputs, SumsAreCopied) {
  Builder b;
  const Tensor x = b.placeholder("x", DataType::f32(), {4, 3});
  const Tensor w = b.placeholder("w", DataType::f32(), {3, 5});
  const Tensor m = b.reduce("m", {4, 5}, {3}, CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return x({i[0], r[0]}) * w({r[0], i[1]});
  });
  const Tensor y = b.compute("y", m.shape, [&](const auto& i) { return max(m(i), float_imm(0)); });
  const Program p = joined(b.finish("p", {y, m}));
  ASSERT_EQ(p.computes.size(), 2u) << to_string(p);
  EXPECT_EQ(p.computes[0].name(), "m_kept");
  EXPECT_TRUE(p.is_output("m") && p.find_compute("m") == &p.computes[1]);
}

// A row's sum reads what the owner is: both leave, the owner last.
TEST(JoinOutputs, OwnersThatAreReadAreCopied) {
  Activation a;
  const Tensor s = a.b.reduce("s", {4}, {6}, CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return a.y({i[0], r[0]});
  });
  const Program p = joined(a.b.finish("p", {a.pre, a.y, s}));
  EXPECT_EQ(p.computes.back().outputs.size(), 2u) << to_string(p);
  EXPECT_EQ(count_reads(p)["y"], 0);
  EXPECT_EQ(p.find_compute("s")->outputs.size(), 1u);
}

TEST(JoinOutputs, OtherShapesStayApart) {
  Builder b;
  const Tensor x = b.placeholder("x", DataType::f32(), {4, 6});
  const Tensor y = b.compute("y", {4, 6}, [&](const auto& i) { return x(i) + float_imm(1); });
  const Tensor z = b.compute("z", {6, 4}, [&](const auto& i) { return x({i[1], i[0]}); });
  const Program before = b.finish("p", {y, z});
  EXPECT_EQ(to_string(joined(before)), to_string(before));
}

}  // namespace
}  // namespace tw::te
