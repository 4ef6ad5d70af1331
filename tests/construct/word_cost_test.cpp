// What products of words take in the model of register tiles, by what the target has.
#include <gtest/gtest.h>

#include "cost/register_tile.h"
#include "targets/registry.h"

namespace tw::construct {
namespace {

cost::ProductCost cost_of(std::optional<WordFormat> format, const char* target) {
  return cost::product_cost(format, targets::find_target(target).info);
}

TEST(WordCost, IsOneCycleWhereTheSumIsInTheInstruction) {
  EXPECT_EQ(cost_of(std::nullopt, "cpu:x86-64-v3").cycles, 1);
  EXPECT_EQ(cost_of(WordFormat::kPairs, "cpu:x86-64-v3").cycles, 2);
  EXPECT_EQ(cost_of(WordFormat::kPairs, "cpu:x86-64-v3+avxvnni").cycles, 1);
  EXPECT_EQ(cost_of(WordFormat::kQuads, "cpu:x86-64-v4+avx512vnni").cycles, 1);
  EXPECT_EQ(cost_of(WordFormat::kBf16, "cpu:x86-64-v4+avx512bf16").cycles, 1);
  EXPECT_EQ(cost_of(WordFormat::kBf16, "cpu:x86-64-v4+avx512vnni").cycles, 2);
  // Their peak is that of a product and a sum.
  EXPECT_EQ(cost_of(std::nullopt, "cpu:x86-64").cycles, 1);
  EXPECT_EQ(cost_of(WordFormat::kPairs, "cpu:x86-64").cycles, 1);
}

TEST(WordCost, ProductsBesideTheirSumsHaveARegister) {
  EXPECT_EQ(cost_of(std::nullopt, "cpu:x86-64").registers, 1);
  EXPECT_EQ(cost_of(std::nullopt, "cpu:x86-64-v4").registers, 0);
  EXPECT_EQ(cost_of(WordFormat::kPairs, "cpu:x86-64-v4").registers, 1);
  EXPECT_EQ(cost_of(WordFormat::kPairs, "cpu:x86-64-v4+avx512vnni").registers, 0);
}

TEST(WordCost, TilesTakeItIntoAccount) {
  const auto best = [](std::optional<WordFormat> format, const char* name) {
    const TargetInfo target = targets::find_target(name).info;
    cost::TileProblem problem{.inner_rows = 512, .columns = 1024, .lanes = target.lanes(DataType::i32()), .steps = 256};
    problem.product = cost::product_cost(format, target);
    return best_tiles(problem, target, 1).front();
  };
  const cost::RegisterTile with = best(WordFormat::kPairs, "cpu:x86-64-v4+avx512vnni");
  const cost::RegisterTile without = best(WordFormat::kPairs, "cpu:x86-64-v4");
  EXPECT_GT(without.cycles, 1.7 * with.cycles);
  EXPECT_LT(without.cycles, 2 * with.cycles) << "loads and loop control are the same";
  EXPECT_EQ(best(WordFormat::kQuads, "cpu:x86-64-v4+avx512vnni").cycles, with.cycles);
}

// A 16-bit float becomes an f32 in registers: one step more for each element of A and vector of B.
TEST(WordCost, WideningIsCountedByOperand) {
  const TargetInfo target = targets::find_target("cpu:x86-64-v3").info;
  cost::TileProblem problem{.inner_rows = 6, .columns = 16, .lanes = 8, .steps = 1 << 20};
  const double plain = best_tiles(problem, target, 1).front().cycles;
  problem.operand_cycles = 1;
  EXPECT_NEAR(best_tiles(problem, target, 1).front().cycles - plain, 6 + 2, 0.5);
}

}  // namespace
}  // namespace tw::construct
