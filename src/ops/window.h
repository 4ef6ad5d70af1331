// Sliding windows: the geometry shared by convolutions and poolings.
#pragma once
#include "ops/common.h"

namespace tw::ops {

/// Of a window over the spatial axes of an input [N, C, spatial..]; every vector has one entry for each spatial axis.
/// Output position o and window position k read input position o * stride - pad_begin + k * dilation.
struct Window {
  Shape in;      // spatial extents of the input
  Shape kernel;  // window extents
  Shape out;     // spatial extents of the output
  std::vector<int64_t> strides, dilations, pad_begin, pad_end;

  size_t rank() const { return in.size(); }
  /// Extent of the window along axis d with its gaps.
  int64_t reach(size_t d) const { return (kernel[d] - 1) * dilations[d] + 1; }
  /// Least and greatest input position that any window reads along axis d; outside [0, in) is padding.
  int64_t lowest(size_t d) const { return -pad_begin[d]; }
  int64_t highest(size_t d) const { return (out[d] - 1) * strides[d] - pad_begin[d] + reach(d) - 1; }
  bool reads_padding() const;
};

enum class OutputSize : uint8_t { kFloor, kCeil };

/// From the attributes strides (ones), dilations (ones) and pads (zeros: begin of all spatial axes, then end of all).
/// kCeil: a last window that starts inside the input or its left padding may reach over the right edge.
/// Rejects calls whose window does not fit.
Window window_of(const OpCall& call, const Shape& kernel, OutputSize size = OutputSize::kFloor);

/// x extended over all positions the window reads, `fill` outside of x; x itself when it reads no padding. Element
/// (n, c, p..) of the result is x at p - offset, where *offset gets one entry for each spatial axis.
te::Tensor pad_for_window(const OpCall& call, te::Builder& builder, const te::Tensor& x, const Window& window,
                          const Expr& fill, std::vector<int64_t>* offset);

/// Index into the padded input for output position o and window position k along axis d.
Expr window_index(const Window& window, size_t d, const Expr& o, const Expr& k, int64_t offset);

/// For every output position (row-major) a list of the input offsets (row-major over `in`) of its window, -1 in
/// padding.
std::vector<int64_t> window_offsets(const Window& window, const std::vector<int64_t>& output_position);

}  // namespace tw::ops
