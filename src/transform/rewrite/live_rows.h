// Which dims of a value count rows of which only the first hold something: of a state that grows, or of an extent that
// comes with the inputs of a run.
#pragma once
#include <optional>
#include <vector>

#include "graph/op.h"
#include "transform/names.h"

namespace tw::transform {

/// What lies in rows that hold nothing.
enum class OtherRows : uint8_t { kAny, kFinite, kZero };

/// Rows along a dim of a value: index i of it belongs to row i / inner % extent, which holds something where that is
/// less than the length.
struct LiveRows {
  size_t dim = 0;
  int length = 0;      // which of the lengths that there are
  int64_t extent = 0;  // rows that there is room for
  int64_t least = 0;   // that hold something whatever the length is
  int64_t inner = 1;   // neighbours along the dim that are one row
  OtherRows other = OtherRows::kAny;

  /// Whether they are rows of the same length at the same places.
  bool is_same(const LiveRows& rows) const { return dim == rows.dim && length == rows.length && inner == rows.inner; }
};
/// Of one value. A dim may have rows of several lengths: batches and rows that a reshape has joined.
using RowsOfValue = std::vector<LiveRows>;

/// What becomes of rows in a node.
struct RowsOfNode {
  RowsOfValue result = {};  // of all its outputs
  /// Inputs whose other rows must be this number before the node reads them.
  struct Fill {
    size_t input;
    LiveRows rows;
    double number;
  };
  std::vector<Fill> fills = {};
  /// The node is a mean over these rows of its input, and others.
  RowsOfValue mean_of = {};
  /// It takes the last of these rows of its first input, and no other.
  std::optional<LiveRows> last = {};
};

/// Of `node`, some of whose `inputs` have rows (by position; the others have none). Throws Unsupported naming the node
/// and its operator where the result would depend on rows that hold nothing.
RowsOfNode rows_of_node(const Graph& graph, const graph::OpTable& ops, const Node& node,
                        const std::vector<RowsOfValue>& inputs);

}  // namespace tw::transform
