// The bound of the error of winograd_conv: of an even tile a convolution on tiles, of the largest inputs with sums over
// kernels; of an uneven one that of direct sums.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/winograd_geometry.h"

namespace tw::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// The test at run time rounds, and in cells at an edge it counts a point up to four times.
constexpr double kClearly = 4.1;
constexpr double kSmallestSquare = 0x1p-126;  // others are zero there

// A function of the inputs of each tile: [n, c, (z,) tile row, tile column], z a depth of x. `add(value, x)` gives the
// value with one more input, from 0 on.
template <typename Add>
std::vector<double> over_tiles(const WinogradConv& conv, const std::vector<double>& x, const Add& add) {
  const Shape& in = conv.window.in;
  const int64_t planes = conv.batch * conv.channels * (conv.deep() ? in[0] : 1);
  const int64_t height = in[conv.h()];
  const int64_t width = in[conv.w()];
  std::vector<double> values(planes * conv.tiles(), 0.0);
  for (int64_t k = 0; k < std::ssize(values); ++k) {
    const int64_t tile = k % conv.tiles();
    const int64_t top = tile / conv.tiles_wide() * conv.m - conv.window.pad_begin[conv.h()];
    const int64_t left = tile % conv.tiles_wide() * conv.m - conv.window.pad_begin[conv.w()];
    const double* plane = &x[k / conv.tiles() * height * width];
    for (int64_t i = std::max<int64_t>(0, top); i < std::min(height, top + conv.m + 2); ++i) {
      for (int64_t j = std::max<int64_t>(0, left); j < std::min(width, left + conv.m + 2); ++j)
        values[k] = add(values[k], plane[i * width + j]);
    }
  }
  return values;
}

// The window over tiles: the third axis as it was, one point along the other two.
Window window_of_tiles(const WinogradConv& conv) {
  Window tiles = conv.window;
  const int64_t extents[] = {conv.tiles_high(), conv.tiles_wide()};
  for (size_t k = 0; k < 2; ++k) {
    const size_t d = conv.h() + k;
    tiles.in[d] = tiles.out[d] = extents[k];
    tiles.kernel[d] = 1;
    tiles.pad_begin[d] = tiles.pad_end[d] = 0;
  }
  return tiles;
}

// For one output channel the sum over what a tile, and what each output, reads of scale^2 x^2.
struct Energies {
  std::vector<double> tiles;    // [n, (o,) tile]
  std::vector<double> windows;  // [n, (o,) y, x]
};
Energies energies_of(const WinogradConv& conv, const std::vector<double>& x, const std::vector<double>& scales) {
  std::vector<double> squares(x.size());
  const int64_t plane = std::ssize(x) / std::max<int64_t>(1, conv.batch * conv.channels);
  for (int64_t i = 0; i < std::ssize(x); ++i) {
    const double scale = scales[i / std::max<int64_t>(1, plane) % conv.channels];
    const double square = x[i] * x[i];
    squares[i] = square < kSmallestSquare ? 0 : scale * scale * square;
  }
  const Channels one{conv.batch, 1, conv.channels, 1};
  const std::vector<double> ones(conv.channels * num_elements(conv.window.kernel), 1.0);
  const int64_t depths = conv.batch * (conv.deep() ? conv.window.out[0] : 1);
  Energies out;
  out.tiles.resize(depths * conv.tiles());
  out.windows.resize(depths * conv.window.out[conv.h()] * conv.window.out[conv.w()]);
  const std::vector<double> sums = over_tiles(conv, squares, [](double sum, double s) { return sum + s; });
  convolve(window_of_tiles(conv), one, sums.data(), ones.data(), out.tiles.data());
  convolve(conv.window, one, squares.data(), ones.data(), out.windows.data());
  return out;
}

// Whether a tile is certainly uneven: the test looks at parts of windows, so that it may find more tiles.
std::vector<bool> clearly_uneven(const WinogradConv& conv, const Energies& energies) {
  std::vector<double> min(energies.tiles.size(), kInfinity);
  const int64_t width = conv.window.out[conv.w()];
  const int64_t area = width * conv.window.out[conv.h()];
  for (int64_t i = 0; i < std::ssize(energies.windows); ++i) {
    const int64_t tile = i % area / width / conv.m * conv.tiles_wide() + i % width / conv.m;
    double& smallest = min[i / area * conv.tiles() + tile];
    smallest = std::min(smallest, energies.windows[i]);
  }
  return by_index(min.size(), [&](size_t t) {
    return !(energies.tiles[t] <= kClearly * kWinogradSpread * min[t] && energies.tiles[t] < kInfinity);
  });
}

std::vector<double> absolute(const std::vector<double>& x) {
  return mapped(x, [&](const double value) { return std::fabs(value); });
}

// Sums over kernels, [oc, c, (position)].
std::vector<double> kernel_sums(const std::vector<double>& kernels) {
  std::vector<double> sums(kernels.size() / 9, 0.0);
  for (size_t i = 0; i < kernels.size(); ++i) sums[i / 9] += std::fabs(kernels[i]);
  return sums;
}

}  // namespace

std::vector<double> winograd_magnitude(const OpCall& call, Refs inputs) {
  const WinogradConv conv = winograd_conv_of(call);
  const std::vector<double>& x = inputs[kWinogradX].floats;
  const std::vector<double> largest =
      over_tiles(conv, x, [](double max, double value) { return std::max(max, std::fabs(value)); });
  const std::vector<double> sums = kernel_sums(inputs[kWinogradKernels].floats);
  std::vector<double> out = direct_magnitude(call, inputs);
  const int64_t width = conv.window.out[conv.w()];
  const int64_t area = width * conv.window.out[conv.h()];
  std::vector<double> tiles(area == 0 ? 0 : std::ssize(out) / area * conv.tiles());
  convolve(window_of_tiles(conv), conv.all_channels(), largest.data(), sums.data(), tiles.data());
  const std::vector<bool> uneven = clearly_uneven(conv, energies_of(conv, x, inputs[kWinogradScales].floats));
  const int64_t depths = conv.deep() ? conv.window.out[0] : 1;
  for (int64_t i = 0; i < std::ssize(out); ++i) {
    const int64_t tile = i % area / width / conv.m * conv.tiles_wide() + i % width / conv.m;
    const int64_t plane = i / area;  // [n, oc, (o)]
    const int64_t image = plane / depths / conv.out_channels * depths + plane % depths;
    if (!uneven[image * conv.tiles() + tile])
      out[i] = std::max(out[i], winograd_growth(conv.m) * tiles[plane * conv.tiles() + tile]);
  }
  return out;
}

std::vector<double> direct_magnitude(const OpCall& call, Refs inputs) {
  const WinogradConv conv = winograd_conv_of(call);
  std::vector<double> out(num_elements(conv.out_shape()));
  convolve(conv.window, conv.all_channels(), absolute(inputs[kWinogradX].floats).data(),
           absolute(inputs[kWinogradKernels].floats).data(), out.data());
  return out;
}

}  // namespace tw::ops
