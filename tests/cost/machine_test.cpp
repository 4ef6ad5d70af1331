// Costs ask the machine: of other rates come other times, and an H100's are what its plans were made with.
#include <gtest/gtest.h>

#include "cost/gpu_chains.h"
#include "cost/gpu_rows.h"
#include "cost/units.h"
#include "targets/registry.h"

namespace tw::cost {
namespace {

TargetInfo h100() { return targets::cuda_architectures().back(); }
TargetInfo a100() { return targets::cuda_architectures().front(); }

// 2 x 4 warps of 4 x 8 instructions: 128 x 256 sums.
ThreadBlockTile warp_tile() {
  ThreadBlockTile tile;
  tile.rows = {
      {2, FactorKind::kThreads}, {4, FactorKind::kUnrolled}, {2, FactorKind::kMatrix}, {8, FactorKind::kThreads}};
  tile.columns = {
      {4, FactorKind::kThreads}, {8, FactorKind::kUnrolled}, {4, FactorKind::kThreads}, {2, FactorKind::kMatrixVector}};
  tile.multiplier = Multiplier::kWarp;
  tile.tile_k = 64;
  tile.stages = 3;
  return tile;
}

GemmProblem product(int64_t extent) {
  return {.m = extent,
          .n = extent,
          .k = extent,
          .bytes = 2,
          .result_bytes = 2,
          .by_matrix = true,
          .operand_bytes = 4 * extent * extent};
}

double tile_ns(const TargetInfo& target, int64_t extent = 4096) {
  return predicted_cycles(warp_tile(), product(extent), target) / target.sm.cycles_per_ns;
}

StreamedTile streamed() { return {4, 1, 64, 2}; }
constexpr StreamedWork kAttention = {96, 512, 512, 128, 200, 60'000};

// Of all that an SM does, the time of each kind of kernel.
std::vector<double> times(const TargetInfo& target) {
  const WholeRowsWork rows = {96, 512, 512, 128, 60'000, 100'000};
  return {tile_ns(target),
          template_cycles({.m = 128, .n = 128, .steps = 32, .row_warps = 2, .column_warps = 2}, product(4096), target) /
              target.sm.cycles_per_ns,
          streamed_ns(streamed(), kAttention, target),
          whole_rows_ns({.rows = 64, .warps = 4}, rows, target),
          split_ns({32, 8, 60'000, 60'000}, target),
          scatter_ns({132, 256, 1, 8192, 64, true}, target),
          kernel_ns(1e6, 1e6, .5, target)};
}

TEST(Machine, AnH100IsAsItsPlansHadIt) {
  const TargetInfo target = h100();
  EXPECT_EQ(target.sm.cycles_per_ns, 1.7);
  EXPECT_EQ(target.sm.warp_products, 1024);
  EXPECT_EQ(target.sm.group_products, 2048);
  EXPECT_EQ(target.sm.l2_share, 48);
  EXPECT_EQ(target.sm.dram_share, 14);
  EXPECT_EQ(l2_by_threads(target), 24);
  EXPECT_EQ(kSplitL2 * target.sm.l2_share, 16);
  EXPECT_EQ(kWholeRowProducts * target.sm.warp_products, 512);
  EXPECT_EQ(kStreamedProducts * target.sm.warp_products, 1250);
  EXPECT_EQ(kStreamedOperands * target.sm.shared_bytes, 1700);
  EXPECT_EQ(kBehindShare * target.sm.kernel_cycles, 1700);
  EXPECT_EQ(kGroupsReached * target.sm.group_products, 1536);
  EXPECT_EQ(target.sm.warp_products / target.sm.thread_products, 8);
}

TEST(Machine, RatesAreOfTheGpuThatIsNamed) {
  EXPECT_GT(targets::sm_rates("NVIDIA H200", "sm_90a").dram_share, h100().sm.dram_share);
  EXPECT_GT(targets::sm_rates("NVIDIA A100-SXM4-80GB", "sm_80").dram_share, a100().sm.dram_share);
  EXPECT_EQ(targets::sm_rates("NVIDIA of another name", "sm_90a").dram_share, h100().sm.dram_share);
  EXPECT_EQ(targets::sm_rates("", "sm_75").warp_products, 0);
  // Products of 16-bit floats: an A100's data sheet has 312 TFLOP/s.
  const SmRates a = a100().sm;
  EXPECT_NEAR(2 * a.warp_products * a.cycles_per_ns * 108 / 1000, 312, 1);
  EXPECT_EQ(a.group_products, 0);
}

TEST(Machine, FasterUnitsTakeNoLonger) {
  const std::vector<double> before = times(h100());
  for (double SmRates::*rate :
       {&SmRates::warp_products, &SmRates::group_products, &SmRates::shared_bytes, &SmRates::l2_bytes,
        &SmRates::all_l2_bytes, &SmRates::l2_share, &SmRates::dram_share, &SmRates::cycles_per_ns}) {
    TargetInfo faster = h100();
    faster.sm.*rate *= 2;
    const std::vector<double> after = times(faster);
    for (size_t i = 0; i < before.size(); ++i) EXPECT_LE(after[i], before[i]) << i;
  }
}

TEST(Machine, EachRateIsAskedWhereItDecides) {
  const auto changes = [](double SmRates::*rate, size_t kernel) {
    TargetInfo slower = h100();
    slower.sm.*rate /= 4;
    return times(slower)[kernel] / times(h100())[kernel];
  };
  EXPECT_GT(changes(&SmRates::warp_products, 0), 2);
  EXPECT_GT(changes(&SmRates::warp_products, 1), 2);
  EXPECT_GT(changes(&SmRates::shared_bytes, 2), 1.5);
  EXPECT_GT(changes(&SmRates::warp_products, 3), 1.5);
  EXPECT_GT(changes(&SmRates::l2_share, 4), 1.5);
  for (size_t kernel = 0; kernel < times(h100()).size(); ++kernel)
    EXPECT_GT(changes(&SmRates::cycles_per_ns, kernel), 3.99) << kernel;
}

TEST(Machine, AnA100TakesLongerThanAnH100) {
  const std::vector<double> a = times(a100()), h = times(h100());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_GT(a[i], h[i]) << i;
}

}  // namespace
}  // namespace tw::cost
