#include "support/many_labels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>

#include "support/binary_labels.h"

namespace tw {
namespace {

using Draw = std::function<int(int, int)>;

std::vector<double> draw_costs(const ManyLabels& p, const std::vector<int>& variables, const Draw& draw) {
  int64_t count = 1;
  for (const int v : variables) count *= p.labels(v);
  std::vector<double> costs;
  for (; count > 0; --count) costs.push_back(draw(0, 9) == 0 ? ManyLabels::kNever : draw(0, 99));
  return costs;
}

// A graph of up to 8 variables of up to 4 labels: costs of each, of pairs, of triples.
ManyLabels random_problem(const Draw& draw) {
  ManyLabels p;
  const int count = draw(1, 8);
  for (int v = 0; v < count; ++v) p.add(draw(1, 4));
  for (int v = 0; v < count; ++v) p.add_cost({v}, draw_costs(p, {v}, draw));
  for (int n = draw(0, 14); n > 0; --n) {
    std::vector<int> variables;
    for (int size = draw(2, 3); size > 0; --size) variables.push_back(draw(0, count - 1));
    if (std::set(variables.begin(), variables.end()).size() != variables.size()) continue;
    p.add_cost(variables, draw_costs(p, variables, draw));
  }
  return p;
}

double least_of_all(const ManyLabels& p) {
  double least = ManyLabels::kNever;
  std::vector<int> labels(static_cast<size_t>(p.size()));
  while (true) {
    least = std::min(least, p.cost_of(labels));
    size_t i = 0;
    for (; i < labels.size() && ++labels[i] == p.labels(static_cast<int>(i)); ++i) labels[i] = 0;
    if (i == labels.size()) return least;
  }
}

TEST(ManyLabels, AreTheBestOfAll) {
  std::mt19937 random(7);
  const Draw draw = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  int never = 0;
  for (int round = 0; round < 400; ++round) {
    const ManyLabels p = random_problem(draw);
    const double least = least_of_all(p);
    const Result<ManyLabels::Solution> found = p.solve();
    ASSERT_EQ(found.ok(), least < ManyLabels::kNever) << "round " << round;
    never += found.ok() ? 0 : 1;
    if (!found.ok()) continue;
    EXPECT_DOUBLE_EQ(found->cost, least) << "round " << round;
    EXPECT_DOUBLE_EQ(p.cost_of(found->labels), least) << "round " << round;
  }
  EXPECT_LT(never, 200);
  EXPECT_GT(never, 0);
}

TEST(ManyLabels, AgreeWithTheCutOfTwoLabels) {
  std::mt19937 random(3);
  const Draw draw = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  for (int round = 0; round < 50; ++round) {
    BinaryLabels two;
    ManyLabels many;
    for (int v = 0; v < 12; ++v) {
      const double zero = draw(0, 9), one = draw(0, 9);
      two.add();
      two.add_cost(v, zero, one);
      many.add(2);
      many.add_cost({v}, {zero, one});
    }
    for (int v = 1; v < 12; ++v) {
      const int w = draw(0, v - 1);
      const double differ = draw(0, 9);
      two.add_pair(v, w, {{{0, differ}, {differ, 0}}});
      many.add_cost({v, w}, {0, differ, differ, 0});
    }
    const std::vector<bool> cut = two.solve();
    EXPECT_DOUBLE_EQ(many.solve()->cost, many.cost_of({cut.begin(), cut.end()})) << "round " << round;
  }
}

// A chain of any length needs tables of two variables alone.
TEST(ManyLabels, TakeLongChainsInSmallTables) {
  ManyLabels p;
  for (int v = 0; v < 2000; ++v) {
    p.add(6);
    if (v == 0) continue;
    std::vector<double> costs(36, 5);
    for (size_t i = 0; i < 6; ++i) costs[i * 6 + (i + 1) % 6] = 1;
    p.add_cost({v - 1, v}, std::move(costs));
  }
  const Result<ManyLabels::Solution> found = p.solve(36);
  ASSERT_TRUE(found.ok()) << found.reason();
  EXPECT_EQ(found->cost, 1999);
}

TEST(ManyLabels, SayWhatIsTooLarge) {
  ManyLabels p;
  for (int v = 0; v < 6; ++v) p.add(4);
  for (int v = 0; v < 6; ++v) {
    for (int w = 0; w < v; ++w) p.add_cost({w, v}, std::vector<double>(16, 1));
  }
  EXPECT_TRUE(p.solve(4096).ok());
  const Result<ManyLabels::Solution> refused = p.solve(4095);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.reason(), "the variables that are left need a table of 4.1e+03 costs at least, 4095 may be");
}

TEST(ManyLabels, SayThatNothingIsAllowed) {
  ManyLabels p;
  p.add(2);
  p.add_cost({0}, {ManyLabels::kNever, ManyLabels::kNever});
  EXPECT_EQ(p.solve().reason(), "no labels may occur together");
}

TEST(ManyLabels, RefuseCostsThatDoNotFit) {
  ManyLabels p;
  p.add(2);
  p.add(3);
  EXPECT_THROW(p.add_cost({0, 1}, std::vector<double>(5)), InternalError);
  EXPECT_THROW(p.add_cost({0, 0}, std::vector<double>(4)), InternalError);
  EXPECT_THROW(p.add(0), InternalError);
}

}  // namespace
}  // namespace tw
