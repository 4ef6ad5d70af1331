// The choice of layouts as a least-cost labelling (mechanism A4, solved over the whole graph): label 0 is row-major, 1
// channels last.
#pragma once
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/target_info.h"
#include "graph/op.h"
#include "transform/names.h"

namespace tw::transform {

/// Reads of a value in an order of their own: from a copy where the value is stored otherwise.
struct OrderedRead {
  int node = 0;
  size_t input = 0;
  bool channels_last = false;
  double other_ns = 0;  // as LayoutChoice::other_ns
};

/// A state: an input and an output of the graph, which have one label; without an output where it is only read.
struct StateEnds {
  ValueId before, after;
};

/// Labels that are decided already: of values by id, of reads by node and input.
struct KnownOrders {
  std::map<ValueId, bool> values;  // of states by the input
  std::map<std::pair<int, size_t>, bool> reads;
};

struct LayoutChoice {
  std::vector<bool> channels_last;  // by value: its producer writes it so; of states by the input
  std::vector<OrderedRead> reads;   // all other reads take the value as it is stored
  /// By value, of those that have a choice: what the whole graph takes longer where it is stored in the other order,
  /// all else being best for that. Filled with Prices::kOfBoth.
  std::vector<std::optional<double>> other_ns;
};

/// Of which order of each value the cost is wanted.
enum class Prices : uint8_t { kOfBest, kOfBoth };

/// The labels of least cost for a compacted graph: an exact minimum cut. Each convolution and pooling has a cost for
/// each pair of orders (layout_costs.h), a value read in both orders is copied once, element-wise operators and others
/// that treat all points alike pay for inputs of another order, transposes and reshapes for not being views. The caller
/// gives and takes rows; a state is stored as its readers and the next value's producer like best. What `known` says
/// holds, except of values and reads that have no choice.
LayoutChoice choose_layouts(const graph::Graph& graph, const graph::OpTable& ops, const TargetInfo& target,
                            const std::vector<StateEnds>& states = {}, const KnownOrders& known = {},
                            Prices prices = Prices::kOfBest);

/// Whether channels last is another order of bytes than row-major for this value.
bool has_order(const graph::Value& value);

}  // namespace tw::transform
