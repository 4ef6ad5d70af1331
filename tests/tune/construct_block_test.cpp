// Families for devices whose tiles have threads: every schedule computes what the te program says.
#include <gtest/gtest.h>

#include "te/merge_axes.h"
#include "te/rewrite.h"
#include "tests/support_code/te_programs.h"
#include "tests/tune/construct_check.h"

namespace tw::tune {
namespace {

// As the driver gives it: axes of one element are none.
te::Program merged(const te::Program& program) {
  const te::Program p = te::drop_unit_reductions(program);
  return te::merge_reductions(te::apply_layouts(p, te::mergeable_axes(p)));
}

TEST(ConstructBlock, TermsOfAProductAreNoRowOfOneElementsOwn) {
  check({merged(testing::matmul_relu(5, 40, 64)), {}}, "cuda:sm_90a", "point", 1e-5);
}

// Rows that divide among threads lie in registers, others in what a tile's threads share.
TEST(ConstructBlock, SoftmaxByThreads) {
  for (const int64_t n : {7, 32, 65, 128, 200, 384, 1000}) {
    for (const int64_t rows : {2, 3, 8}) {
      SCOPED_TRACE(fmt::format("{} rows of {}", rows, n));
      check({merged(testing::softmax(rows, n)), {}}, "cuda:sm_90a", n < 32 ? "point" : "rows", 1e-5);
    }
  }
}

// What no tile keeps is computed twice.
TEST(ConstructBlock, LongRowsByThreads) {
  targets::Target t = targets::find_target("cuda:sm_90a");
  for (const int64_t bytes : {16 << 10, 5 << 10}) {
    t.info.levels.front().capacity_bytes = bytes;
    const GroupTask task{merged(testing::softmax(2, 1000)), {}};
    for (const Construction& built : construct(t.families, task, t.info, nullptr)) {
      EXPECT_EQ(built.family, "rows");
      const std::string schedule = schedule::to_string(built.schedule);
      EXPECT_EQ(schedule.find("inline exp") != std::string::npos, bytes < 8 << 10) << schedule;
      check_candidate(task, t, built, 1e-5);
    }
  }
}

// 40,000 elements of 8 bytes do not fit a tile's memory, as those of 4 bytes do: they are read again.
TEST(ConstructBlock, WhatATileKeepsIsCountedInBytes) {
  for (const DataType type : {DataType::f32(), DataType::f64()}) {
    te::Builder b;
    constexpr int64_t kLength = 40000;
    const te::Tensor x = b.placeholder("x", type, {2, kLength});
    const te::Tensor sum = b.reduce("sum", {2}, {kLength}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
      return x({i[0], r[0]});
    });
    const te::Tensor y = b.compute("y", {2, kLength}, [&](const auto& i) { return x(i) / sum({i[0]}); });
    const targets::Target t = targets::find_target("cuda:sm_90a");
    const Construction built = construct(t.families, {b.finish("share", {y}), {}}, t.info, nullptr).front();
    EXPECT_EQ(built.family, "rows");
    const bool kept = schedule::to_string(built.schedule).find("cache_read x") != std::string::npos;
    EXPECT_EQ(kept, type == DataType::f32()) << to_string(type);
  }
}

TEST(ConstructBlock, TransposesThroughSharedMemory) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{64, 96}, {50, 33}, {32, 32}, {9, 200}}) {
    SCOPED_TRACE(fmt::format("{} x {}", rows, columns));
    check({testing::transpose(rows, columns), {}}, "cuda:sm_90a", std::min(rows, columns) < 32 ? "point" : "transpose");
  }
}

TEST(ConstructBlock, MeansByThreads) {
  for (const int64_t n : {33, 256, 6000}) {
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::f32(), {3, 4, n});
    const te::Tensor sum = b.reduce("sum", {3, 4}, {n}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
      return x({i[0], i[1], r[0]});
    });
    const te::Tensor mean = b.compute("mean", {3, 4}, [&](const auto& i) {
      return sum({i[0], i[1]}) * imm(DataType::f32(), 1.0 / n);
    });
    check({merged(b.finish("mean", {mean})), {}}, "cuda:sm_90a", "rows", 1e-5);
  }
}

}  // namespace
}  // namespace tw::tune
