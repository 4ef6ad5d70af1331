#include "support/binary_labels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/error.h"

namespace tw {
namespace {

constexpr double kUnits = 256;  // of capacity in one unit of cost: flows are whole numbers

int64_t capacity(double cost) { return std::llround(cost * kUnits); }

}  // namespace

// A flow network. Edge 2k and its reverse 2k + 1 share their capacity.
class BinaryLabels::Network {
 public:
  explicit Network(int nodes) : edges_of_(static_cast<size_t>(nodes)) {}

  void add(int from, int to, int64_t room) {
    if (room <= 0) return;
    edges_of_[from].push_back(static_cast<int>(edges_.size()));
    edges_.push_back({to, room});
    edges_of_[to].push_back(static_cast<int>(edges_.size()));
    edges_.push_back({from, 0});
  }

  /// Sends all that still goes from source to sink; how much that is.
  int64_t saturate(int source, int sink) {
    int64_t all = 0;
    while (find_levels(source, sink)) {
      next_.assign(edges_of_.size(), 0);
      while (const int64_t sent = push(source, sink, std::numeric_limits<int64_t>::max())) all += sent;
    }
    return all;
  }

  /// After saturate: whether the source still reaches the node.
  bool is_reached(int node) const { return level_[node] >= 0; }

 private:
  struct Edge {
    int to;
    int64_t room;
  };

  // Distances from the source over edges with room; whether they reach the sink.
  bool find_levels(int source, int sink) {
    level_.assign(edges_of_.size(), -1);
    level_[source] = 0;
    std::vector<int> queue = {source};
    for (size_t i = 0; i < queue.size(); ++i) {
      for (const int e : edges_of_[queue[i]]) {
        if (edges_[e].room == 0 || level_[edges_[e].to] >= 0) continue;
        level_[edges_[e].to] = level_[queue[i]] + 1;
        queue.push_back(edges_[e].to);
      }
    }
    return level_[sink] >= 0;
  }

  // Sends at most `max` along one path of rising levels.
  int64_t push(int node, int sink, int64_t max) {
    if (node == sink) return max;
    for (size_t& i = next_[node]; i < edges_of_[node].size(); ++i) {
      const int e = edges_of_[node][i];
      if (edges_[e].room == 0 || level_[edges_[e].to] != level_[node] + 1) continue;
      const int64_t sent = push(edges_[e].to, sink, std::min(max, edges_[e].room));
      if (sent == 0) continue;
      edges_[e].room -= sent;
      edges_[e ^ 1].room += sent;
      return sent;
    }
    return 0;
  }

  std::vector<std::vector<int>> edges_of_;
  std::vector<Edge> edges_;
  std::vector<int> level_;
  std::vector<size_t> next_;
};

int BinaryLabels::add() {
  offsets_.push_back(0);
  return size() - 1;
}

void BinaryLabels::add_cost(int v, double if_zero, double if_one) { offsets_.at(v) += if_one - if_zero; }

bool BinaryLabels::is_submodular(const PairCosts& c) { return c[0][0] + c[1][1] <= c[0][1] + c[1][0]; }

// c(v, w) = c00 + (c11 - c01) v + (c01 - c00) w + (c01 + c10 - c00 - c11) v (1 - w).
void BinaryLabels::add_pair(int v, int w, const PairCosts& c) {
  TW_CHECK(v != w, "labels: a pair of variable {} with itself", v);
  TW_CHECK(is_submodular(c), "labels: the costs of the pair {}, {} are not submodular", v, w);
  add_cost(v, 0, c[1][1] - c[0][1]);
  add_cost(w, 0, c[0][1] - c[0][0]);
  arcs_.push_back({v, w, c[0][1] + c[1][0] - c[0][0] - c[1][1]});
}

// Label 1 is the source's side. What the source reaches in the end is the smallest such side.
BinaryLabels::Network BinaryLabels::saturated() const {
  Network network(size() + 2);
  for (int v = 0; v < size(); ++v) {
    network.add(source(), v, capacity(-offsets_[v]));
    network.add(v, sink(), capacity(offsets_[v]));
  }
  for (const Arc& arc : arcs_) network.add(arc.from, arc.to, capacity(arc.cost));
  network.saturate(source(), sink());
  return network;
}

std::vector<bool> BinaryLabels::solve() const {
  const Network network = saturated();
  std::vector<bool> labels;
  for (int v = 0; v < size(); ++v) labels.push_back(network.is_reached(v));
  return labels;
}

// A forced label is an edge that no cut takes. The flow that it lets through besides the largest one is the growth.
std::vector<double> BinaryLabels::costs_of_other(const std::vector<int>& variables) const {
  const Network network = saturated();
  std::vector<double> growth;
  for (const int v : variables) {
    Network forced = network;
    const bool is_one = network.is_reached(v);
    forced.add(is_one ? v : source(), is_one ? sink() : v, capacity(kForbiddenCost));
    growth.push_back(static_cast<double>(forced.saturate(source(), sink())) / kUnits);
  }
  return growth;
}

}  // namespace tw
