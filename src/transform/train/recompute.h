// Values of a forward pass that its backward pass computes again instead of keeping them.
#pragma once
#include <cstddef>
#include <cstdint>

#include "graph/op.h"
#include "transform/names.h"

namespace tw::transform {

/// Which ones. Values that the backward pass reads are results of products or cheap: they are computed again from what
/// else is kept, and from results of products, which are kept for that.
struct Recompute {
  double cheap = 0;   // share of the bytes of all cheap values, those of most bytes for each element read first
  int64_t every = 1;  // of results of products, in order, each `every`th is kept at most; others are computed again

  bool is_off() const { return cheap <= 0 && every <= 1; }
};

struct Recomputed {
  int64_t values = 0;  // that are kept no longer
  int64_t bytes = 0;   // of them
};

/// The first `forward` nodes of `graph` are the forward pass. Values of it that `what` names and later nodes read are
/// computed again for these, right before the first of them, from inputs, constants and what is kept, each at most
/// once. Nodes that do so have the attribute kAgain, so that no pass makes them one with the first ones. Values below
/// kSmallBytes are kept.
Recomputed recompute(graph::Graph& graph, const graph::OpTable& ops, size_t forward, const Recompute& what);

inline constexpr int64_t kSmallBytes = 1024;

}  // namespace tw::transform
