// Which dim of a value counts rows of a state, of which only the first hold something.
#pragma once
#include <optional>

#include "graph/op.h"
#include "transform/names.h"

namespace tw::transform {

/// Of the values of a graph: where their rows are, and whether those that hold nothing are zeros (else any numbers).
struct LiveRows {
  size_t dim = 0;
  int length = 0;  // which of the lengths that states have
  bool zero = false;
};

/// What becomes of rows in a node.
struct RowsOfNode {
  std::optional<LiveRows> result = {};  // none: no dim of the result counts rows
  /// Inputs whose other rows must be this number before the node reads them.
  struct Fill {
    size_t input;
    double number;
  };
  std::vector<Fill> fills = {};
};

/// Of `node`, some of whose `inputs` have rows (by position; the others have none). Throws Unsupported naming the node
/// where the result would depend on rows that hold nothing.
RowsOfNode rows_of_node(const Graph& graph, const graph::OpTable& ops, const Node& node,
                        const std::vector<std::optional<LiveRows>>& inputs);

}  // namespace tw::transform
