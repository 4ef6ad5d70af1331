// Layout templates (ALT, section 5.1; mechanism A6): for each operator a row that says how the output and the operands
// of its contraction are tiled, so that a layout of all three is a few numbers.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/error.h"
#include "te/te.h"

namespace tw::te {

/// How a tensor is stored: its dims; those of its storage, each tiled by the factor behind it, and then those of a
/// tile.
/// {"NOHW", "NHhWwOo", "hwo"} is N, H / h, W / w, O / o, h, w, o.
struct Tiling {
  std::string_view dims, outer, inner;
  /// The factor of a dim, 0 where it is not tiled; the number of the dim that `factor` tiles, -1 where none is.
  char factor_of(char dim) const;
  int64_t dim_of(char factor) const;
};

/// A row. An operand's dim with a factor of the output is read along that axis of it, by windows perhaps: its tiles
/// hold what tiles of the output read.
struct LayoutTemplate {
  std::string_view name;
  Tiling output, input, weights;
};
std::span<const LayoutTemplate> layout_templates();

/// The elements in a tile, by factor. Two numbers make a template of two levels: tiles of the first many tiles of the
/// second many elements.
using TileFactors = std::map<char, std::vector<int64_t>>;

/// The layouts that `factors` make of `row` for the tensors of the first contraction of `program`, whose divided axes
/// are axes (te/merge_axes.h), as the groups of a convolution: padded where factors do not divide. Element-wise
/// computes behind the contraction follow it, unless its layout expands it. Declines what `row` does not describe, and
/// factors of which one is no whole number of another along one axis: after apply_layouts and split_reductions no sum
/// divides an index.
Result<std::map<std::string, Layout>> template_layouts(const Program& program, const LayoutTemplate& row,
                                                       const TileFactors& factors);

/// The layout that cuts dim `dim`, of `extent` elements, of what `reader` reads by `read`, into tiles of the windows
/// V * i + r + c that `tiles` counts, as TileFactors does: cropped or padded to them, then
/// unfold(max(V * (n - 1) + M, V * n), V * n) for tiles of n. Nothing where the index is no window of at most one axis
/// i.
std::optional<Layout> unfold_windows(const Compute& reader, const Expr& read, size_t dim, int64_t extent,
                                     const std::vector<int64_t>& tiles);

}  // namespace tw::te
