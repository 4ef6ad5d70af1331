// Sliding windows: the geometry shared by convolutions and poolings; the channels of convolutions, and what follows
// their sums: a bias, and rounding.
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
  int64_t dilated_kernel(size_t d) const { return (kernel[d] - 1) * dilations[d] + 1; }
  /// Least and greatest input position that any window reads along axis d; outside [0, in) is padding.
  int64_t lowest(size_t d) const { return -pad_begin[d]; }
  int64_t highest(size_t d) const { return (out[d] - 1) * strides[d] - pad_begin[d] + dilated_kernel(d) - 1; }
};

enum class OutputSize : uint8_t { kFloor, kCeil };

/// From the attributes strides (ones), dilations (ones) and pads (zeros: begin of all spatial axes, then end of all).
/// kCeil: a last window that starts inside the input or its left padding may reach over the right edge.
/// Rejects calls whose window does not fit.
Window window_of(const OpCall& call, const Shape& kernel, OutputSize size = OutputSize::kFloor);

/// That of a pooling operator (pool.cpp): of a global one the whole of its input.
Window pool_window(const OpCall& call);

/// Least and greatest position that is read along a spatial axis.
struct Halo {
  int64_t low, high;
};

/// x extended over the `halos` of its spatial axes, `fill` outside of x; x itself when nothing outside is read. Element
/// (n, c, p..) of the result is x at p - offset, where *offset gets one entry for each spatial axis.
te::Tensor pad_around(const OpCall& call, te::Builder& builder, const te::Tensor& x, const std::vector<Halo>& halos,
                      const Expr& fill, std::vector<int64_t>* offset);
/// So over all positions that the window reads.
te::Tensor pad_for_window(const OpCall& call, te::Builder& builder, const te::Tensor& x, const Window& window,
                          const Expr& fill, std::vector<int64_t>* offset);

/// Index into the padded input for output position o and window position k along axis d.
Expr window_index(const Window& window, size_t d, const Expr& o, const Expr& k, int64_t offset);

/// For every output position (row-major) a list of the input offsets (row-major over `in`) of its window, -1 in
/// padding.
std::vector<int64_t> window_offsets(const Window& window, const std::vector<int64_t>& output_position);

/// Of x [batch, channels, ..] and y [batch, out_channels, ..]; channels of all groups together.
struct Channels {
  int64_t batch, group, channels, out_channels;
  int64_t each() const { return channels / group; }
  int64_t out_each() const { return out_channels / group; }
  /// One filter for each channel: no sum over channels.
  bool depthwise() const { return group > 1 && each() == 1; }
  /// The channel of x that output channel oc reads as its ic-th (ic is unused for depthwise convolutions).
  Expr input(const Expr& oc, const Expr& ic) const;
};

/// Those of x and weights [out_channels, channels / group, ..] for the attribute group (1). Rejects what does not fit,
/// and x of other than 3 to 5 dims.
Channels channels_of(const OpCall& call);

/// Inference of x, weights and a bias of one float type; what `geometry_of` gives has `channels` and an out_shape().
template <auto geometry_of>
Types infer_conv(const OpCall& call) {
  require_float(call, 0);
  require_same_type(call, 0, 1);
  const auto geometry = geometry_of(call);
  require_bias(call, geometry.channels.out_channels);
  return {{call.inputs[0].type, geometry.out_shape()}};
}

/// The name of the sum that with_bias takes.
std::string sum_name(const OpCall& call);
/// `sum` plus the bias, where there is one, in the type of x.
Tensors with_bias(const OpCall& call, te::Builder& builder, const te::Tensor& sum, const Tensors& inputs);
/// The same of the reference.
void add_bias(const OpCall& call, Refs inputs, RefTensor& y, size_t bias = 2);

}  // namespace tw::ops
