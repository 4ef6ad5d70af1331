// Paths between clusters against a search of all paths, on random graphs whose clusters unite wherever they may.
#include "transform/fuse/cluster_order.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/graph/sample.h"

namespace tw::transform {
namespace {

using graph::Graph;
using graph::ValueId;
using graph::test::add;

Graph random_sums(uint64_t seed, int nodes) {
  std::mt19937_64 random(seed);
  Graph g;
  std::vector<ValueId> values = {g.add_input("x", {DataType::f32(), {4}})};
  const auto pick = [&] {  // mostly one of the last ones
    const size_t back = random() % 4 == 0 ? values.size() : std::min<size_t>(values.size(), 5);
    return values[values.size() - 1 - random() % back];
  };
  for (int n = 0; n < nodes; ++n) values.push_back(add(g, "add", {pick(), pick()}));
  g.outputs = {values.back()};
  return g;
}

// Clusters that read a value of `c`.
std::set<int> readers_of(const Graph& g, const ClusterOrder& clusters, int c) {
  const std::vector<std::vector<int>> readers = g.consumers();
  std::set<int> found;
  for (const int n : clusters.members(c)) {
    for (const ValueId out : g.nodes[n].outputs) {
      for (const int r : readers[out]) found.insert(clusters.of(r));
    }
  }
  return found;
}

// Whether a path leads from cluster to cluster through a third one.
bool has_path(const Graph& g, const ClusterOrder& clusters, int from, int to) {
  std::set<int> seen;
  std::vector<int> open = {from};
  while (!open.empty()) {
    const int cluster = open.back();
    open.pop_back();
    for (const int next : readers_of(g, clusters, cluster)) {
      if (next == to && cluster != from) return true;
      if (next != from && next != to && seen.insert(next).second) open.push_back(next);
    }
  }
  return false;
}

TEST(ClusterOrder, FindsThePathsThatThereAre) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Graph g = random_sums(seed, 40);
    ClusterOrder clusters(g);
    std::mt19937_64 random(seed);
    for (int attempt = 0; attempt < 120; ++attempt) {
      const int a = clusters.of(static_cast<int>(random() % 40)), b = clusters.of(static_cast<int>(random() % 40));
      if (a == b) continue;
      const int forth = clusters.between(a, b), back = clusters.between(b, a);
      ASSERT_EQ(forth != ClusterOrder::kNone, has_path(g, clusters, a, b)) << seed << ", " << attempt;
      ASSERT_EQ(back != ClusterOrder::kNone, has_path(g, clusters, b, a)) << seed << ", " << attempt;
      if (forth == ClusterOrder::kNone && back == ClusterOrder::kNone) clusters.unite(a, b);
      if (forth >= 0) {
        ASSERT_FALSE(clusters.members(forth).empty());
      }
    }
  }
}

TEST(ClusterOrder, SaysWhatIsTooFar) {
  Graph g;
  ValueId value = g.add_input("x", {DataType::f32(), {4}});
  const ValueId first = value = add(g, "relu", {value});
  for (int n = 0; n < kMaxSearch + 10; ++n) value = add(g, "relu", {value});
  g.outputs = {add(g, "add", {first, value})};
  ClusterOrder clusters(g);
  EXPECT_EQ(clusters.between(0, kMaxSearch + 11), ClusterOrder::kFar);
  EXPECT_EQ(clusters.between(20, kMaxSearch + 11), 21);
  EXPECT_EQ(clusters.between(kMaxSearch + 11, 0), ClusterOrder::kNone);
}

}  // namespace
}  // namespace tw::transform
