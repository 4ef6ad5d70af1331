// Axes that have one extent because the operators between them say so: widening one widens all.
#pragma once
#include <set>

#include "graph/op.h"
#include "support/error.h"

namespace tw::advise {

/// An axis of a value.
struct Axis {
  graph::ValueId value = graph::kAbsent;
  int64_t axis = 0;
  auto operator<=>(const Axis&) const = default;
};

/// The channels of one width, and all that has them.
struct Channels {
  std::set<Axis> axes;
  std::set<Axis> summed;                 // those of them that a contraction sums over: of its constant weights
  std::set<graph::ValueId> per_channel;  // results of convolutions with a filter for each channel
  int64_t extent = 0;
};

/// All axes that are as long as `start`, because operators tie them to it. Declines, with the reason, where one of them
/// is the model's input or output, or belongs to an operator for which other channels mean something else.
Result<Channels> find_channels(const graph::Graph& model, const graph::OpTable& ops, const Axis& start);

}  // namespace tw::advise
