#include "support/binary_labels.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <random>

#include "support/error.h"

namespace tw {
namespace {

using PairCosts = BinaryLabels::PairCosts;

// The same costs kept as a list, so that every labelling can be priced.
struct Problem {
  struct Single {
    int v;
    double zero, one;
  };
  struct Pair {
    int v, w;
    PairCosts costs;
  };
  int variables = 0;
  std::vector<Single> singles;
  std::vector<Pair> pairs;

  double cost(uint32_t ones) const {
    const auto label = [&](int v) { return (ones >> v) & 1U; };
    double sum = 0;
    for (const Single& s : singles) sum += label(s.v) ? s.one : s.zero;
    for (const Pair& p : pairs) sum += p.costs[label(p.v)][label(p.w)];
    return sum;
  }

  BinaryLabels labels() const {
    BinaryLabels labels;
    for (int v = 0; v < variables; ++v) labels.add();
    for (const Single& s : singles) labels.add_cost(s.v, s.zero, s.one);
    for (const Pair& p : pairs) labels.add_pair(p.v, p.w, p.costs);
    return labels;
  }
  std::vector<bool> solve() const { return labels().solve(); }
};

// Whole costs, a spanning tree of pairs or more of them than a tree has.
Problem random_problem(std::mt19937& random) {
  const auto draw = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  Problem p;
  p.variables = draw(1, 10);
  for (int v = 0; v < p.variables; ++v) p.singles.push_back({v, double(draw(0, 9)), double(draw(0, 9))});
  const auto add_pair = [&](int v, int w) {
    PairCosts c;
    for (auto& row : c) {
      for (double& x : row) x = draw(0, 9);
    }
    c[0][1] += std::max(0.0, c[0][0] + c[1][1] - c[0][1] - c[1][0]);
    p.pairs.push_back({v, w, c});
  };
  for (int v = 1; v < p.variables; ++v) add_pair(draw(0, v - 1), v);
  for (int extra = draw(0, 12); extra > 0 && p.variables > 1; --extra) {
    const int v = draw(0, p.variables - 1);
    const int w = draw(0, p.variables - 1);
    if (v != w) add_pair(v, w);
  }
  return p;
}

TEST(BinaryLabels, AreTheBestOfAll) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    const Problem p = random_problem(random);
    double best = p.cost(0);
    for (uint32_t ones = 1; ones < (1U << p.variables); ++ones) best = std::min(best, p.cost(ones));
    const std::vector<bool> labels = p.solve();
    uint32_t ones = 0;
    for (int v = 0; v < p.variables; ++v) ones |= static_cast<uint32_t>(labels[v]) << v;
    EXPECT_DOUBLE_EQ(p.cost(ones), best) << "round " << round;
  }
}

// Of every variable, against all labellings in which it has the other label.
TEST(BinaryLabels, OtherLabelsCostWhatTheBestLabellingWithThemDoes) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    const Problem p = random_problem(random);
    const BinaryLabels labels = p.labels();
    const std::vector<bool> best = labels.solve();
    std::vector<int> variables(static_cast<size_t>(p.variables));
    std::iota(variables.begin(), variables.end(), 0);
    const std::vector<double> growth = labels.costs_of_other(variables);
    double min = std::numeric_limits<double>::infinity();
    std::vector<double> forced(variables.size(), min);
    for (uint32_t ones = 0; ones < (1U << p.variables); ++ones) {
      const double cost = p.cost(ones);
      min = std::min(min, cost);
      for (const int v : variables) {
        if (((ones >> v) & 1U) != (best[v] ? 1U : 0U)) forced[v] = std::min(forced[v], cost);
      }
    }
    for (const int v : variables) EXPECT_NEAR(growth[v], forced[v] - min, 1e-9) << "round " << round << " " << v;
  }
}

TEST(BinaryLabels, TiesAreZero) {
  BinaryLabels labels;
  const int a = labels.add();
  const int b = labels.add();
  labels.add_cost(a, 3, 3);
  labels.add_cost(b, 1, 1);
  labels.add_pair(a, b, {{{0, 2}, {2, 0}}});
  EXPECT_EQ(labels.solve(), (std::vector<bool>{false, false}));
}

TEST(BinaryLabels, ForbiddenLabelsDoNotOccur) {
  BinaryLabels labels;
  const int a = labels.add();
  const int b = labels.add();
  labels.add_cost(a, 0, kForbiddenCost);
  labels.add_cost(b, 1e6, 0);
  labels.add_pair(a, b, {{{0, kForbiddenCost}, {0, 0}}});  // b implies a
  EXPECT_EQ(labels.solve(), (std::vector<bool>{false, false}));
}

TEST(BinaryLabels, RefusesWhatNoCutExpresses) {
  BinaryLabels labels;
  const int a = labels.add();
  const int b = labels.add();
  EXPECT_THROW(labels.add_pair(a, b, {{{1, 0}, {0, 1}}}), InternalError);
  EXPECT_THROW(labels.add_pair(a, a, {{{0, 1}, {1, 0}}}), InternalError);
}

}  // namespace
}  // namespace tw
