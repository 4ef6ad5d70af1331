// Nodes on their way into groups, and the rules by which a node joins one. What declines says why.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/target_info.h"
#include "graph/op.h"
#include "support/why.h"
#include "transform/names.h"
#include "transform/roles.h"

namespace tw::transform {

/// The name of the rule by which nodes share a group.
using Rule = std::string_view;

/// That of layout copies before contractions.
inline constexpr Rule kCopyRule = "copy";

inline constexpr size_t kMaxParts = 4;    // of a concat that is read in place: each element asks which part it is of
inline constexpr size_t kMaxNodes = 32;   // of a group: bounds the time to compile one
inline constexpr size_t kMaxInputs = 32;  // of a group: kernel parameters beyond registers cost more than they save

/// A group while it grows.
struct Cluster {
  std::vector<int> nodes;
  Shape space;                         // of its output: the iteration space of its element-wise nodes
  int contraction = -1;                // its node
  size_t epilogue = 0;                 // nodes that follow it, the first ones behind it
  std::vector<Shape> row_spaces = {};  // of data reduced inside, and of results broadcast again
};

class Clusters {
 public:
  Clusters(const Graph& graph, const graph::OpTable& ops, DeviceKind target);

  const std::vector<Cluster>& all() const { return clusters_; }
  const Cluster& operator[](int c) const { return clusters_[c]; }
  Role role(int n) const { return roles_[n]; }
  int cluster_of(int n) const { return cluster_of_[n]; }  // -1: none
  int producer(ValueId value) const { return producers_[value]; }
  const std::vector<int>& readers(ValueId value) const { return readers_[value]; }

  /// Of a node, as texts have it: its operator stands behind a name that several share.
  std::string name(int n) const;
  /// Whether node `n` may still join a group, as one that computes one value.
  bool is_free(int n) const;
  /// Whether a group may consist of `n` and what it takes in.
  bool may_own_group(int n) const;

  int open(int n);  // a cluster of one node; its number
  void join(int c, int n);
  void follow(int c, int n);  // as part of the contraction's epilogue
  void give_back(int c);      // the last node of the epilogue

  /// Whether all readers of `value` are in cluster `c`.
  bool is_read_only_inside(ValueId value, int c) const;

  /// Whether element-wise node `n` may follow the contraction's result `from` point by point: same shape and layout;
  /// operands of the same shape are stored alike.
  RuleResult follows(int n, ValueId from) const;
  /// Whether cluster `c` may take in the producer `p` of something that it alone reads, and has room for it.
  RuleResult takes_in(int c, int p) const;
  /// The same without the question of room.
  RuleResult may_join(int c, int p) const;
  RuleResult has_room(int c, int n) const;
  /// Why node `n` is none that follows a contraction.
  Why no_follower(int n) const;

 private:
  ValueId output(int n) const { return graph_.nodes[n].outputs[0]; }
  const Shape& shape(int n) const { return graph_.value(output(n)).type.shape; }
  const Shape& data_shape(int n) const { return graph_.value(graph_.nodes[n].inputs[0]).type.shape; }
  size_t input_count(const Cluster& cluster, int n) const;
  RuleResult joins_reader(int c, int p, int r) const;
  RuleResult is_read_pointwise(int c, int p, int r) const;
  RuleResult joins_as_move(int c, int p, int r, ValueId read) const;
  RuleResult joins_as_parts(int c, int p, int r, ValueId read) const;
  RuleResult joins_as_reshape(int c, int p, int r) const;
  bool is_reshape_inside(int c, int r) const;
  bool keeps_rows(int p) const;
  bool keeps_matrices(int p) const;
  bool has_rows_of(const Cluster& cluster, int p) const;
  RuleResult joins_as_reduction(int c, int p) const;
  bool ends_in_reduction(int p, const Shape& whole, int steps) const;

  const Graph& graph_;
  DeviceKind target_;
  std::vector<int> producers_;
  std::vector<std::vector<int>> readers_;
  std::vector<Role> roles_;
  std::vector<int> cluster_of_;
  std::vector<Cluster> clusters_;
  std::map<std::string, int> names_;  // how many nodes have each
};

/// Why a node of role kAlone, or a view, shares a group with no other.
Why why_alone(const Graph& graph, const Node& node);

}  // namespace tw::transform
