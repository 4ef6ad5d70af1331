// What a call of winograd_conv (ops/winograd_conv.cpp) computes, and the parts of its te.
#pragma once
#include "ops/ref_product.h"
#include "ops/window.h"
#include "ops/winograd.h"
#include "support/math.h"

namespace tw::ops {

struct WinogradConv {
  Window window;
  int64_t m, batch, channels, out_channels;
  bool deep() const { return window.rank() == 3; }
  size_t h() const { return window.rank() - 2; }  // spatial axis of the rows
  size_t w() const { return window.rank() - 1; }
  int64_t tiles_high() const { return ceil_div(window.out[h()], m); }
  int64_t tiles_wide() const { return ceil_div(window.out[w()], m); }
  int64_t tiles() const { return tiles_high() * tiles_wide(); }
  Shape out_shape() const { return joined(Shape{batch, out_channels}, window.out); }
  Channels all_channels() const { return {batch, 1, channels, out_channels}; }
  /// Depths of the input and its padding that some output reads.
  int64_t depths() const { return (window.out[0] - 1) * window.strides[0] + window.dilated_kernel(0); }
  /// The depth among them that output depth `o` reads by `position`.
  Expr depth(const Expr& o, const Expr& position) const {
    return o * Expr(window.strides[0]) + position * Expr(window.dilations[0]);
  }
  /// Rows and columns of cells: squares of 2 x 2 inputs, the first ones where the first tile begins.
  int64_t cells_high() const { return tiles_high() * m / 2 + 1; }
  int64_t cells_wide() const { return tiles_wide() * m / 2 + 1; }
};

/// Checks the inputs, the bias aside.
WinogradConv winograd_conv_of(const OpCall& call);

/// Whether a tile is uneven (ops/winograd.h): bool [n, (o,) row of tiles, column of tiles], o the depth of the output.
te::Tensor te_uneven(const OpCall& call, te::Builder& builder, const WinogradConv& conv, const Tensors& inputs);

/// The direct convolution by tiles: [n, (o,) row of tiles, column of tiles, row, column, oc].
te::Tensor te_direct(const OpCall& call, te::Builder& builder, const WinogradConv& conv, const Tensors& inputs);

}  // namespace tw::ops
