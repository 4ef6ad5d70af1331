// Sliding windows of convolutions and pools: kernel, strides, dilations and pads with ONNX's defaults, checked.
#pragma once
#include <cstdint>
#include <vector>

#include "frontend/onnx/context.h"

namespace tw::frontend {

struct Window {
  std::vector<int64_t> kernel, strides, dilations;  // one for each spatial dimension
  std::vector<int64_t> pads;                        // begins of all, then ends of all
  /// Extent of the dilated kernel in dimension d, elements.
  int64_t dilated_kernel(size_t d) const { return dilations[d] * (kernel[d] - 1) + 1; }
};

/// Extents after the first two; UserError for a rank below 3.
Shape spatial_of(const Shape& shape);

/// Attribute group, at least 1.
int64_t group_of(NodeContext& c);

/// {strides, dilations, pads, group} as attributes of our operators.
graph::Attrs conv_attrs(const Window& w, int64_t group);

/// The window of node `c` over `spatial` extents. `kernel`: extents known from the weights; else kernel_shape is
/// required. auto_pad SAME_UPPER, SAME_LOWER and VALID become pads. UserError for lists of a wrong length, for strides,
/// dilations or kernel extents below 1, negative pads and values beyond kMaxAttribute.
Window read_window(NodeContext& c, const Shape& spatial, const std::vector<int64_t>& kernel = {});

/// Its kernel, strides and dilations only, of `rank` spatial dimensions.
Window read_steps(NodeContext& c, size_t rank, const std::vector<int64_t>& kernel = {});
/// Pads dimension d by `total`; auto_pad `mode` says which side gets the odd one.
void share_padding(Window& w, size_t d, int64_t total, std::string_view mode);

/// Attributes strides, dilations, pads and group of a convolution of x (N, C, D1, ..) with w (M, C / group, K1, ..),
/// checked against both shapes.
graph::Attrs conv_attributes(NodeContext& c, const Shape& x, const Shape& w);

/// Attributes kernel_shape, strides, dilations, pads and ceil_mode of a pool of input 0.
graph::Attrs pool_attrs(NodeContext& c);

/// UserError for a list of another size, or with values below `low` or beyond kMaxAttribute.
std::vector<int64_t> checked_list(std::vector<int64_t> list, size_t size, int64_t low, std::string_view name);
/// Attribute `key`, so checked; `size` times `fallback` when it is not given.
std::vector<int64_t> list_or(NodeContext& c, const std::string& key, size_t size, int64_t fallback);

}  // namespace tw::frontend
