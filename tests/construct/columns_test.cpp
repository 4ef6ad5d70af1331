// Reductions that keep columns, alone in their group: long ones of few columns in parts, whatever the width.
#include <gtest/gtest.h>

#include "te/join_outputs.h"
#include "te/rewrite.h"
#include "tests/construct/construct_check.h"

namespace tw::construct {
namespace {

struct Case {
  Shape shape;  // the columns last, one axis before them stays where `keeps` says so
  DataType type = DataType::f32();
  te::CombinerKind kind = te::CombinerKind::kSum;
  bool mean = false;  // divided, and of the type of the terms
  bool keeps = false;
};

te::Program columns(const Case& in) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", in.type, in.shape);
  const size_t first = in.keeps ? 1 : 0;
  Shape rows(in.shape.begin() + static_cast<int64_t>(first), in.shape.end() - 1), out = {in.shape.back()};
  if (in.keeps) out.insert(out.begin(), in.shape.front());
  const te::Tensor s = b.reduce("s", out, rows, in.kind, [&](const auto& i, const auto& r) {
    std::vector<Expr> at(i.begin(), i.end() - 1);
    at.insert(at.end(), r.begin(), r.end());
    at.push_back(i.back());
    return cast(DataType::f32(), x(at));
  });
  const te::Tensor y =
      b.compute("y", out, [&](const auto& i) { return cast(in.type, s(i) / float_imm(static_cast<double>(8))); });
  return merged(b.finish("columns", {in.mean ? y : s}));
}

size_t kernels_of(const te::Program& program, const Construction& built) {
  return schedule::apply(te::apply_layouts(program, built.constant_layouts), built.schedule).kernels.size();
}

void expect_kernels(const Case& in, size_t kernels, double tolerance = 1e-5) {
  const te::Program program = columns(in);
  for (const char* target : {"cuda:sm_80", "cuda:sm_90a"}) {
    SCOPED_TRACE(target + te::to_string(program));
    const targets::Target t = targets::find_target(target);
    const Candidates candidates = construct(t.families, {program, {}}, t.info, nullptr);
    EXPECT_EQ(kernels_of(program, candidates.front()), kernels) << schedule::to_string(candidates.front().schedule);
    if (kernels > 1) {
      EXPECT_EQ(kernels_of(program, candidates.back()), 1U) << "whole columns race";
    }
    check({program, {}}, target, "columns", tolerance);
    if (in.kind == te::CombinerKind::kSum) check({program, {}}, target, "columns", tolerance, Values::kSpecial);
  }
}

TEST(GpuColumns, LongReductionsOfFewColumnsAreCombinedInParts) {
  for (const int64_t width : {2, 7, 48, 77}) expect_kernels({{160, width}}, 2);
  expect_kernels({{200, 33}, DataType::f16(), te::CombinerKind::kSum, true}, 2, 1e-2);
  expect_kernels({{128, 30}, DataType::f32(), te::CombinerKind::kMax}, 2);
  expect_kernels({{3, 144, 24}, DataType::f32(), te::CombinerKind::kSum, true, true}, 2);
}

// Sums of x, or of v = x + y, which leaves, too, and of that times z: what a norm's scale and bias get.
te::Program two_sums(const Shape& shape, bool leaves) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), shape), y = b.placeholder("y", DataType::f32(), shape),
                   z = b.placeholder("z", DataType::f32(), shape);
  const te::Tensor v = leaves ? b.compute("v", shape, [&](const auto& i) { return x(i) + y(i); }) : x;
  const auto sum = [&](const char* name, const auto& term) {
    return b.reduce(name, {shape[1]}, {shape[0]}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
      return term(std::vector<Expr>{r[0], i[0]});
    });
  };
  const te::Tensor bias = sum("bias", [&](const auto& i) { return v(i); });
  const te::Tensor scale = sum("scale", [&](const auto& i) { return v(i) * z(i); });
  return te::join_sums(b.finish("two", leaves ? std::vector<te::Tensor>{v, bias, scale} : std::vector{bias, scale}));
}

TEST(SeveralSums, OfTheSameColumnsAreOneKernel) {
  for (const bool leaves : {false, true}) {
    for (const Shape& shape : {Shape{160, 48}, Shape{149, 13}, Shape{48, 128}, Shape{256, 7}}) {
      const te::Program program = two_sums(shape, leaves);
      EXPECT_EQ(program.computes.size(), leaves ? 2U : 1U) << te::to_string(program);
      for (const char* target : {"cpu:x86-64-v3", "cpu:x86-64-v4", "cuda:sm_80", "cuda:sm_90a"}) {
        SCOPED_TRACE(target + te::to_string(program));
        const targets::Target t = targets::find_target(target);
        const Candidates candidates = construct(t.families, {program, {}}, t.info, nullptr);
        EXPECT_LE(kernels_of(program, candidates.front()), 2U) << "one, or parts and their sums";
        check({program, {}}, target, leaves ? "sums" : "columns", 1e-5);
      }
    }
  }
}

TEST(GpuColumns, PartsOfUnequalLength) {
  for (const int64_t rows : {149, 211}) expect_kernels({{rows, 13}}, 2);
  expect_kernels({{149, 16}, DataType::f32(), te::CombinerKind::kMax}, 2);
}

TEST(GpuColumns, ShortOnesAreNot) {
  for (const int64_t width : {7, 48}) expect_kernels({{49, width}}, 1);
  expect_kernels({{2, 49, 33}, DataType::f32(), te::CombinerKind::kSum, true, true}, 1);
}

}  // namespace
}  // namespace tw::construct
