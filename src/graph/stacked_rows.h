// Cutting a tensor into its rows, and stacking values as rows, in blocks: what one kernel does with thousands of parts
// grows with their square, and slices that are cut alike are a few different kernels.
#pragma once
#include <algorithm>
#include <vector>

#include "graph/graph.h"

namespace tw::graph {

/// `Emit` appends operators to some graph: shape(id), reshape(id, shape), slice(id, axis, start, extent) and
/// concat_all(ids, axis), each of which returns a value.
template <typename Emit>
class StackedRows {
 public:
  explicit StackedRows(Emit& emit) : emit_(emit) {}

  /// The elements of `x` along `axis`, one by one and without that axis.
  std::vector<ValueId> rows(ValueId x, int64_t axis) {
    const Shape whole = emit_.shape(x);
    const int64_t count = whole.at(static_cast<size_t>(axis));
    Shape row = whole;
    row.erase(row.begin() + axis);
    std::vector<ValueId> rows;
    if (count > kRowsOfBlock) {
      const auto at = whole.begin() + axis;
      cut(emit_.reshape(x, {num_elements({whole.begin(), at}), count, num_elements({at + 1, whole.end()})}), row, rows);
      return rows;
    }
    for (int64_t i = 0; i < count; ++i) rows.push_back(emit_.reshape(emit_.slice(x, axis, i, 1), row));
    return rows;
  }

  ValueId concat(const std::vector<ValueId>& parts, int64_t axis) {
    if (parts.size() == 1) return parts[0];
    if (parts.size() <= kMaxParts) return emit_.concat_all(parts, axis);
    std::vector<ValueId> blocks;
    for (size_t from = 0; from < parts.size(); from += kPartsOfBlock) {
      const auto first = parts.begin() + static_cast<std::ptrdiff_t>(from);
      const size_t count = std::min(kPartsOfBlock, parts.size() - from);
      blocks.push_back(concat({first, first + static_cast<std::ptrdiff_t>(count)}, axis));
    }
    return concat(blocks, axis);
  }

 private:
  static constexpr int64_t kRowsOfBlock = 32;                   // that are cut out of one value
  static constexpr size_t kMaxParts = 256, kPartsOfBlock = 64;  // of one concat, and of each where there are more

  // x is [outer, rows, inner], or with an axis of 1 before the last one: two blocks within each other differ in rank,
  // so that their slices stay two.
  void cut(ValueId x, const Shape& row, std::vector<ValueId>& rows) {
    const Shape whole = emit_.shape(x);
    const bool is_flat = whole.size() == 3;
    int64_t block = 1;
    while (block * kRowsOfBlock < whole[1]) block *= kRowsOfBlock;
    for (int64_t start = 0; start < whole[1]; start += block) {
      const int64_t extent = std::min(block, whole[1] - start);
      const ValueId part = emit_.slice(x, 1, start, extent);
      if (extent == 1) {
        rows.push_back(emit_.reshape(part, row));
      } else {
        const Shape inside = is_flat ? Shape{whole[0], extent, 1, whole[2]} : Shape{whole[0], extent, whole.back()};
        cut(emit_.reshape(part, inside), row, rows);
      }
    }
  }

  Emit& emit_;
};

}  // namespace tw::graph
