// The way round Winograd's algorithm where a tile's inputs are of too different sizes (ops/winograd.h): which tiles are
// uneven, and their outputs by direct sums.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/winograd_geometry.h"

namespace tw::ops {
namespace {

Expr clamped(const Expr& e, int64_t extent) { return min(max(e, Expr(0)), Expr(extent - 1)); }

// Of cells: the sum over channels of scale^2 x^2. [n, (z,) row of cells, column of cells], z one of conv.depths().
// Padding repeats the edge, so that a cell in it says nothing of its own; what cells cover is a part of what each
// window reads, where padding is no wider than a point.
te::Tensor te_energies(const OpCall& call, te::Builder& builder, const WinogradConv& conv, const Tensors& inputs) {
  Shape shape{conv.batch};
  if (conv.deep()) shape.push_back(conv.depths());
  shape.push_back(conv.cells_high());
  shape.push_back(conv.cells_wide());
  const size_t rows = shape.size() - 2;
  const Window& window = conv.window;
  const auto at = [&](size_t d, const Expr& position) {
    return clamped(position - Expr(window.pad_begin[d]), window.in[d]);
  };
  const auto cell = [&](const Exprs& i, const Exprs& r) {
    Expr sum;
    for (const int64_t dy : {0, 1}) {
      for (const int64_t dx : {0, 1}) {
        Exprs point{i[0], r[0]};
        if (conv.deep()) point.push_back(at(0, i[1]));
        point.push_back(at(conv.h(), i[rows] * Expr(2) + Expr(dy)));
        point.push_back(at(conv.w(), i[rows + 1] * Expr(2) + Expr(dx)));
        const Expr x = inputs[kWinogradX](point);
        sum = sum ? fma(x, x, sum) : x * x;
      }
    }
    const Expr scale = inputs[kWinogradScales]({r[0]});
    return (scale * scale) * sum;
  };
  return builder.reduce(tensor_name(call, "energies"), shape, {conv.channels}, te::CombinerKind::kSum, cell);
}

// The (m + 2) x (m + 2) inputs of each tile: [n, (z,) row of tiles, column of tiles, row, column, c]. The condition is
// no range of an index: nothing is to be gained by loops without it, which would be more code.
te::Tensor te_patches(const OpCall& call, te::Builder& builder, const WinogradConv& conv, const te::Tensor& x) {
  Shape shape{conv.batch};
  if (conv.deep()) shape.push_back(conv.depths());
  const size_t tile = shape.size();
  for (const int64_t extent : {conv.tiles_high(), conv.tiles_wide(), conv.m + 2, conv.m + 2, conv.channels})
    shape.push_back(extent);
  return builder.compute(tensor_name(call, "patches"), shape, [&](const Exprs& i) {
    Exprs point{i[0], i.back()};
    Exprs conditions;
    const auto add = [&](size_t d, const Expr& position) {
      const Expr index = position - Expr(conv.window.pad_begin[d]);
      point.push_back(clamped(index, conv.window.in[d]));
      conditions.push_back(point.back() == index);
    };
    if (conv.deep()) add(0, i[1]);
    add(conv.h(), i[tile] * Expr(conv.m) + i[tile + 2]);
    add(conv.w(), i[tile + 1] * Expr(conv.m) + i[tile + 3]);
    return select(all_of(conditions), x(point), imm(x.type, 0));
  });
}

}  // namespace

te::Tensor te_uneven(const OpCall& call, te::Builder& builder, const WinogradConv& conv, const Tensors& inputs) {
  const te::Tensor energies = te_energies(call, builder, conv, inputs);
  Shape shape{conv.batch};
  if (conv.deep()) shape.push_back(conv.window.out[0]);
  shape.push_back(conv.tiles_high());
  shape.push_back(conv.tiles_wide());
  const size_t tile = shape.size() - 2;
  const auto cell = [&](const Exprs& i, int64_t row, int64_t column) {
    Expr sum;
    for (int64_t position = 0; position < (conv.deep() ? conv.window.kernel[0] : 1); ++position) {
      Exprs at{i[0]};
      if (conv.deep()) at.push_back(conv.depth(i[1], Expr(position)));
      at.push_back(i[tile] * Expr(conv.m / 2) + Expr(row));
      at.push_back(i[tile + 1] * Expr(conv.m / 2) + Expr(column));
      sum = sum ? sum + energies(at) : energies(at);
    }
    return sum;
  };
  return builder.compute(tensor_name(call, "uneven"), shape, [&](const Exprs& i) {
    Expr total, min;
    for (int64_t row = 0; row <= conv.m / 2; ++row) {
      for (int64_t column = 0; column <= conv.m / 2; ++column) {
        const Expr energy = cell(i, row, column);
        total = total ? total + energy : energy;
        min = min ? select(energy < min, energy, min) : energy;
      }
    }
    const Expr limit = min * imm(min.type(), kWinogradSpread);
    return logical_not(total <= limit && total < imm(total.type(), std::numeric_limits<double>::infinity()));
  });
}

te::Tensor te_direct(const OpCall& call, te::Builder& builder, const WinogradConv& conv, const Tensors& inputs) {
  const te::Tensor patches = te_patches(call, builder, conv, inputs[kWinogradX]);
  Shape shape{conv.batch}, reduced{conv.channels, 3, 3};
  if (conv.deep()) {
    shape.push_back(conv.window.out[0]);
    reduced.insert(reduced.begin() + 1, conv.window.kernel[0]);
  }
  const size_t tile = shape.size();
  for (const int64_t extent : {conv.tiles_high(), conv.tiles_wide(), conv.m, conv.m, conv.out_channels})
    shape.push_back(extent);
  return builder.reduce(tensor_name(call, "direct"), shape, reduced, te::CombinerKind::kSum,
                        [&](const Exprs& i, const Exprs& r) {
                          const Expr& row = r[r.size() - 2];
                          const Expr& column = r.back();
                          Exprs at{i[0]}, kernel{i.back(), r[0]};
                          if (conv.deep()) {
                            at.push_back(conv.depth(i[1], r[1]));
                            kernel.push_back(r[1]);
                          }
                          for (const Expr& e : {i[tile], i[tile + 1], i[tile + 2] + row, i[tile + 3] + column, r[0]})
                            at.push_back(e);
                          kernel.push_back(row);
                          kernel.push_back(column);
                          return patches(at) * inputs[kWinogradKernels](kernel);
                        });
}

std::vector<float> winograd_scales(const Shape& w_shape, const float* w) {
  const int64_t channels = w_shape[1];
  const int64_t each = num_elements(w_shape) / std::max<int64_t>(1, w_shape[0] * channels);
  std::vector<double> squares(channels, 0.0);
  for (int64_t i = 0; i < num_elements(w_shape); ++i)
    squares[i / each % channels] += static_cast<double>(w[i]) * static_cast<double>(w[i]);
  const double largest = squares.empty() ? 0 : *std::ranges::max_element(squares);
  return mapped(squares,
                [&](const double s) { return largest > 0 ? static_cast<float>(std::sqrt(s / largest)) : 0.0F; });
}

// Sums of squares over the four squares of 2 x 2 filter positions: outputs at an edge multiply the others by padding.
bool suits_winograd(const Shape& w_shape, const float* w) {
  constexpr double kLargest = 0x1p40;  // far from where a sum of products of even tiles overflows
  const int64_t each = num_elements(w_shape) / std::max<int64_t>(1, w_shape[0]);
  for (int64_t oc = 0; oc < w_shape[0]; ++oc) {
    double squares[9] = {};
    for (int64_t i = 0; i < each; ++i) {
      const double x = w[oc * each + i];
      if (!(std::fabs(x) <= kLargest)) return false;
      squares[i % 9] += x * x;
    }
    double total = 0;
    for (const double x : squares) total += x;
    for (const int corner : {0, 1, 3, 4}) {
      const double square = squares[corner] + squares[corner + 1] + squares[corner + 3] + squares[corner + 4];
      if (total > kWinogradSpread * square) return false;
    }
  }
  return true;
}

}  // namespace tw::ops
