// Layouts that only permute dimensions, and which nodes move no bytes under them.
#pragma once
#include <optional>
#include <vector>

#include "core/layout.h"
#include "graph/graph.h"

namespace tw::transform {

/// Element i is list[order[i]].
std::vector<int64_t> permuted(const std::vector<int64_t>& list, const std::vector<int64_t>& order);
/// The order that undoes `order`.
std::vector<int64_t> inverse_of(const std::vector<int64_t>& order);

/// Dimension order of a layout of `rank` dims that only permutes them: storage dim i is logical dim order[i]. Nothing
/// for layouts with other primitives.
std::optional<std::vector<int64_t>> storage_order(const Layout& layout, size_t rank);
/// The layout with that order; the identity layout for the identical order.
Layout layout_of_order(const std::vector<int64_t>& order);

/// Whether two layouts put the elements of `shape` at the same places (orders that differ in dims of extent 1 only).
bool same_bytes(const Shape& shape, const Layout& a, const Layout& b);

/// The layout under which the output of `transpose` holds the bytes of its input stored as `input`; nothing when
/// `input` does more than permute.
std::optional<Layout> view_of_transpose(const graph::Node& transpose, const Layout& input, size_t rank);

/// Whether the layout permutes the dimensions of tensors of this shape: what groups of any kind can read and write.
bool fits(const Layout& layout, const Shape& shape);
/// The layout that `known` (may be null) has for `value`, where that has the shape for it.
const Layout* find_layout(const ValueLayouts* known, const graph::Value& value);

/// Whether `node`, a reshape, transpose or identity or a group of just one, stores its input's bytes as its output
/// under the layouts of both: it needs no code, its output may lie where its input lies.
bool is_view(const graph::Graph& graph, const graph::Node& node);

}  // namespace tw::transform
