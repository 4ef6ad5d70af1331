// Least cost of variables with several labels each and costs of any sets of them: exact, by elimination.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "support/error.h"

namespace tw {

/// cost(x) = sum over costs f of f(x_S), S the variables of f, x_v in 0 .. labels(v) - 1. Costs need no property: where
/// all variables have two labels and all sets are pairs that are submodular, BinaryLabels is polynomial.
///
/// One variable after the other is replaced by the least that the costs with it take, for all labels of the variables
/// that it shares costs with (bucket elimination: dynamic programming over a tree decomposition). On a chain that is
/// the shortest path. Source: Dechter, Bucket Elimination: A Unifying Framework for Reasoning, 1999.
class ManyLabels {
 public:
  /// Of labels that must not occur together.
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  /// Labels of the variables of one elimination together: the most that are walked through, in a few seconds. What is
  /// kept of them is as many times less as the variable that goes has labels.
  static constexpr int64_t kMostEntries = int64_t{1} << 27;

  struct Solution {
    std::vector<int> labels;  // by variable
    double cost = 0;
  };

  /// A new variable, which has at least one label; returns its number.
  int add(int labels);
  int size() const { return static_cast<int>(labels_.size()); }
  int labels(int v) const { return labels_.at(static_cast<size_t>(v)); }

  /// Adds the cost of each labelling of `variables`, all different: the last one's labels vary fastest.
  void add_cost(std::vector<int> variables, std::vector<double> costs);

  /// The cost of all labels.
  double cost_of(const std::vector<int>& labels) const;

  /// Labels of least cost. Declines where no labels may occur together, and where variables hang together so closely
  /// that a table would have more than `most_entries`, naming how many.
  Result<Solution> solve(int64_t most_entries = kMostEntries) const;

 private:
  struct Table {
    std::vector<int> variables;
    std::vector<double> costs;
  };
  class Elimination;
  std::vector<int> labels_;
  std::vector<Table> costs_;
};

}  // namespace tw
