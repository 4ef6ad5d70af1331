// Least cost of binary labels with costs of single variables and of pairs: an exact minimum cut.
#pragma once
#include <array>
#include <vector>

namespace tw {

/// A cost of labels that are not to occur: more than any sum of real costs.
constexpr double kForbiddenCost = 1e12;

/// cost(x) = sum over v of f_v(x_v) + sum over pairs of g_vw(x_v, x_w), x in {0, 1}^n; every pair is submodular,
/// g(0, 0) + g(1, 1) <= g(0, 1) + g(1, 0), which makes the minimum a minimum cut of a network.
/// Source: Kolmogorov and Zabih, What Energy Functions Can Be Minimized via Graph Cuts?, 2004; the flow is Dinic's.
class BinaryLabels {
 public:
  /// A new variable; returns its number.
  int add();
  int size() const { return static_cast<int>(offsets_.size()); }

  /// Adds `if_one` - `if_zero` to the cost of label 1: only the difference counts.
  void add_cost(int v, double if_zero, double if_one);
  /// Adds costs[x_v][x_w], v != w. InternalError where they are not submodular.
  using PairCosts = std::array<std::array<double, 2>, 2>;
  void add_pair(int v, int w, const PairCosts& costs);

  static bool is_submodular(const PairCosts& costs);

  /// Labels of least cost; where several are equal, those with the fewest ones.
  std::vector<bool> solve() const;

  /// By how much the least cost grows where variable v has the label that solve() does not give it, for each v of
  /// `variables`: at least kForbiddenCost where it must not have it.
  std::vector<double> costs_of_other(const std::vector<int>& variables) const;

 private:
  struct Arc {
    int from = 0;
    int to = 0;
    double cost = 0;  // of from = 1, to = 0
  };
  class Network;
  int source() const { return size(); }
  int sink() const { return size() + 1; }
  Network saturated() const;

  std::vector<double> offsets_;  // cost of label 1 less that of label 0
  std::vector<Arc> arcs_;
};

}  // namespace tw
