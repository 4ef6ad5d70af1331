// Which groups may write a state where they read it.
#pragma once
#include "graph/op.h"
#include "transform/names.h"

namespace tw::transform {

/// A value that the artefact keeps from one run to the next: what a run finds as the graph's input `before`, it leaves
/// as the output `after` of the same type. Where `after` is empty the graph leaves it as it is: another one changes it.
struct StateNames {
  std::string before, after;
  bool changes() const { return !after.empty(); }
  friend bool operator==(const StateNames&, const StateNames&) = default;
};

/// How a group changes a state in its place.
enum class InPlace : uint8_t {
  kNot,    // it reads elements that it may have written by then
  kBlind,  // it does not read the state
  kPoint,  // each element from the same one and others that are no state's
  kSlice,  // some elements in the place of others, which it does not read (operator update_slice)
};

/// Of `group`, which computes the value `after` from `before` or not.
InPlace in_place(const graph::OpTable& ops, const Graph& graph, const Node& group, ValueId before, ValueId after);

}  // namespace tw::transform
