#include "transform/fuse/cluster_order.h"

#include <algorithm>
#include <numeric>

namespace tw::transform {

ClusterOrder::ClusterOrder(const graph::Graph& graph)
    : graph_(graph),
      readers_(graph.consumers()),
      cluster_of_(graph.nodes.size()),
      order_(graph.nodes.size()),
      seen_(graph.nodes.size(), 0) {
  std::iota(cluster_of_.begin(), cluster_of_.end(), 0);
  std::iota(order_.begin(), order_.end(), 0);
  place_ = order_;
  for (const int n : order_) members_.push_back({n});
}

// One for each such read.
std::vector<int> ClusterOrder::clusters_that_read(int cluster) const {
  std::vector<int> clusters;
  for (const int n : members_[cluster]) {
    for (const graph::ValueId out : graph_.nodes[n].outputs) {
      for (const int r : readers_[out]) clusters.push_back(cluster_of_[r]);
    }
  }
  return clusters;
}

// What lies between two clusters has places between theirs.
int ClusterOrder::between(int from, int to) {
  if (place_[from] > place_[to]) return kNone;
  ++search_;
  int visited = 0;
  std::vector<std::pair<int, int>> open = {{from, kNone}};  // a cluster, and the one by which the path left `from`
  while (!open.empty()) {
    const auto [cluster, first] = open.back();
    open.pop_back();
    for (const int next : clusters_that_read(cluster)) {
      if (next == to && cluster != from) return first;
      if (!is_inside(next, place_[from], place_[to]) || seen_[next] == search_) continue;
      if (++visited > kMaxSearch) return kFar;
      seen_[next] = search_;
      open.emplace_back(next, first == kNone ? next : first);
    }
  }
  return kNone;
}

void ClusterOrder::mark_what_follows(int c, int last) {
  ++search_;
  std::vector<int> open = {c};
  while (!open.empty()) {
    const int cluster = open.back();
    open.pop_back();
    for (const int next : clusters_that_read(cluster)) {
      if (!is_inside(next, place_[c], last) || seen_[next] == search_) continue;
      seen_[next] = search_;
      open.push_back(next);
    }
  }
}

// Of what lies between, the clusters that follow the first one come behind both, and the others before.
void ClusterOrder::unite(int from, int to) {
  const int first = std::min(place_[from], place_[to]), last = std::max(place_[from], place_[to]);
  mark_what_follows(order_[first], last);
  const auto begin = order_.begin() + first;
  std::vector<int> behind;
  auto end = begin;
  for (int at = first + 1; at < last; ++at) {
    const int cluster = order_[at];
    if (seen_[cluster] == search_) behind.push_back(cluster);
    if (seen_[cluster] != search_) *end++ = cluster;
  }
  *end++ = from;
  end = std::ranges::copy(behind, end).out;
  *end = to;  // holds no node any more
  for (int at = first; at <= last; ++at) place_[order_[at]] = at;
  for (const int n : members_[to]) cluster_of_[n] = from;
  std::vector<int>& nodes = members_[from];
  nodes.insert(nodes.end(), members_[to].begin(), members_[to].end());
  std::ranges::sort(nodes);
  members_[to].clear();
}

}  // namespace tw::transform
