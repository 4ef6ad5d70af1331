// Groups that unite step by step, in an order in which each comes after those that it reads.
#pragma once
#include <vector>

#include "graph/graph.h"

namespace tw::transform {

inline constexpr int kMaxSearch = 1000;  // clusters that a search for a path visits: bounds its time in long graphs

class ClusterOrder {
 public:
  static constexpr int kNone = -1;
  static constexpr int kFar = -2;

  /// Every node of a sorted graph as a cluster of its own, of the same number.
  explicit ClusterOrder(const graph::Graph& graph);

  int of(int node) const { return cluster_of_[node]; }
  /// Its nodes, in the graph's order; none once it was united with another.
  const std::vector<int>& members(int c) const { return members_[c]; }
  const std::vector<std::vector<int>>& all() const { return members_; }

  /// The first cluster on a path from `from` to `to` through others, where a single edge is none: kNone where there is
  /// no path, kFar where a search of kMaxSearch clusters does not tell.
  int between(int from, int to);
  /// Makes `from` and `to` one, called `from`. Requires that none lies between them, in both directions.
  void unite(int from, int to);

 private:
  std::vector<int> clusters_that_read(int cluster) const;
  bool is_inside(int c, int first, int last) const { return place_[c] > first && place_[c] < last; }
  void mark_what_follows(int c, int last);

  const graph::Graph& graph_;
  std::vector<std::vector<int>> readers_;  // nodes, by value
  std::vector<int> cluster_of_;            // by node
  std::vector<std::vector<int>> members_;  // by cluster
  std::vector<int> order_;                 // clusters
  std::vector<int> place_;                 // of a cluster in the order
  std::vector<int> seen_;                  // by cluster: the search that came there last
  int search_ = 0;
};

}  // namespace tw::transform
