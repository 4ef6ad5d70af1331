// Convolution with 3 x 3 kernels by Winograd's algorithm F(m x m, 3 x 3), m = 2 or 4 (ops/winograd.h), in f32. A third
// spatial axis, the first one, is summed over directly.
//
// winograd_conv(x [N, C, (D,) H, W], U, [bias [OC]]) -> y [N, OC, (D',) H', W']: conv(x, w, bias) for the w whose
// transform is U [m + 2, m + 2, (KD,) C, OC]:
//   U[p, q, .., c, oc] = sum over r, s of G[p, r] w[oc, c, .., r, s] G[q, s]
// Attributes: m, strides, dilations, pads as conv; stride and dilation of the last two axes are 1.
// te, for the tile t of m x m output points of one image (or of one depth):
//   V[p, q, n, (z,) t, c] = (B^T d B)[p, q], d the (m + 2) x (m + 2) inputs of the tile in channel c (depth z)
//   M[p, q, n, (o,) t, oc] = sum over c, (depth tap) of V[p, q, n, (z of o and tap,) t, c] * U[p, q, (tap,) c, oc]
//   y = A^T M A for each tile, plus bias
// Both transforms take two steps, along rows and along columns. NaN and infinities reach all outputs of their tile.
#include "ops/families.h"
#include "ops/ref_conv.h"
#include "ops/window.h"
#include "ops/winograd.h"
#include "support/math.h"

namespace tw::ops {
namespace {

int64_t tile_size(const OpCall& call) {
  const int64_t m = call.node.int_attr("m");
  require(call, m == 2 || m == 4, "tiles of {} x {}, expected 2 x 2 or 4 x 4", m, m);
  return m;
}

void require_f32(const OpCall& call, size_t input) {
  require(call, call.inputs[input].type == DataType::f32(), "input {} is {}, expected f32", input,
          to_string(call.inputs[input]));
}

struct Conv {
  Window window;
  int64_t m, batch, channels, out_channels;
  bool deep() const { return window.rank() == 3; }
  size_t h() const { return window.rank() - 2; }  // spatial axis of the rows
  size_t w() const { return window.rank() - 1; }
  int64_t tiles_high() const { return ceil_div(window.out[h()], m); }
  int64_t tiles_wide() const { return ceil_div(window.out[w()], m); }
  int64_t tiles() const { return tiles_high() * tiles_wide(); }
  Shape out_shape() const { return joined(Shape{batch, out_channels}, window.out); }
  /// The window of all points of all tiles: the last ones may reach over the edges of the output.
  Window of_tiles() const {
    Window all = window;
    all.out[h()] = tiles_high() * m;
    all.out[w()] = tiles_wide() * m;
    return all;
  }
};

Conv conv_of(const OpCall& call) {
  const Shape& x = call.inputs[0].shape;
  const Shape& u = call.inputs[1].shape;
  const int64_t m = tile_size(call);
  require(call, (x.size() == 4 || x.size() == 5) && u.size() == x.size() && u[0] == m + 2 && u[1] == m + 2,
          "input {} and transformed weights {} do not fit tiles of {} x {}", to_string(call.inputs[0]),
          to_string(call.inputs[1]), m, m);
  require(call, u[u.size() - 2] == x[1], "{} input channels and transformed weights {}", x[1],
          to_string(call.inputs[1]));
  Shape kernel{3, 3};
  if (x.size() == 5) kernel.insert(kernel.begin(), u[2]);
  const Conv conv{window_of(call, kernel), m, x[0], x[1], u.back()};
  for (const size_t d : {conv.h(), conv.w()}) {
    require(call, conv.window.strides[d] == 1 && conv.window.dilations[d] == 1,
            "stride {} and dilation {} of a spatial axis, expected 1", conv.window.strides[d],
            conv.window.dilations[d]);
  }
  return conv;
}

Types infer(const OpCall& call) {
  require_f32(call, 0);
  require_f32(call, 1);
  const Conv conv = conv_of(call);
  require_bias(call, conv.out_channels);
  return {{DataType::f32(), conv.out_shape()}};
}

// values[index] for an index that is an expression.
Expr pick(const Expr& index, const Exprs& values) {
  Expr result = values.back();
  for (size_t p = values.size() - 1; p-- > 0;)
    result = select(index == Expr(static_cast<int64_t>(p)), values[p], result);
  return result;
}

Exprs numbers(int64_t count) {
  Exprs result;
  for (int64_t k = 0; k < count; ++k) result.emplace_back(k);
  return result;
}

// V; the first two axes p, q, then n, (z,) t, c.
te::Tensor te_input(const OpCall& call, te::Builder& builder, const Conv& conv, const te::Tensor& x) {
  const Winograd& w = winograd(conv.m);
  const Window all = conv.of_tiles();
  std::vector<int64_t> offset;
  const te::Tensor padded = pad_for_window(call, builder, x, all, imm(x.type, 0), &offset);
  Shape shape{w.points(), w.points(), conv.batch};
  if (conv.deep()) shape.push_back(padded.shape[2]);
  shape.push_back(conv.tiles());
  shape.push_back(conv.channels);
  const size_t t = shape.size() - 2;
  const auto rows = builder.compute(tensor_name(call, "rows"), shape, [&](const Exprs& i) {
    Exprs column;
    for (const Expr& row : numbers(w.points())) {
      Exprs at{i[2], i[t + 1]};
      if (conv.deep()) at.push_back(i[3]);
      const Expr high = floor_div(i[t], Expr(conv.tiles_wide())) * Expr(conv.m);
      const Expr wide = floor_mod(i[t], Expr(conv.tiles_wide())) * Expr(conv.m);
      at.push_back(window_index(all, conv.h(), high, row, offset[conv.h()]));
      at.push_back(window_index(all, conv.w(), wide, i[1], offset[conv.w()]));
      column.push_back(padded(at));
    }
    return pick(i[0], winograd_input(w, column));
  });
  return builder.compute(tensor_name(call, "tiles"), shape, [&](Exprs i) {
    const Expr q = i[1];
    Exprs row;
    for (const Expr& column : numbers(w.points())) {
      i[1] = column;
      row.push_back(rows(i));
    }
    return pick(q, winograd_input(w, row));
  });
}

te::Tensor te_products(const OpCall& call, te::Builder& builder, const Conv& conv, const te::Tensor& v,
                       const te::Tensor& u) {
  Shape shape = v.shape;
  shape.back() = conv.out_channels;
  Shape reduced{conv.channels};
  if (conv.deep()) {
    shape[3] = conv.window.out[0];
    reduced.push_back(conv.window.kernel[0]);
  }
  return builder.reduce(tensor_name(call, "products"), shape, reduced, te::CombinerKind::kSum,
                        [&](const Exprs& i, const Exprs& r) {
                          Exprs at_v(i.begin(), i.end());
                          at_v.back() = r[0];
                          Exprs at_u{i[0], i[1]};
                          if (conv.deep()) {
                            at_v[3] = i[3] * Expr(conv.window.strides[0]) + r[1] * Expr(conv.window.dilations[0]);
                            at_u.push_back(r[1]);
                          }
                          at_u.push_back(r[0]);
                          at_u.push_back(i.back());
                          return v(at_v) * u(at_u);
                        });
}

Tensors te_conv(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Conv conv = conv_of(call);
  const Winograd& w = winograd(conv.m);
  const te::Tensor v = te_input(call, builder, conv, inputs[0]);
  const te::Tensor products = te_products(call, builder, conv, v, inputs[1]);
  Shape half = products.shape;
  half[0] = conv.m;
  const auto rows = builder.compute(tensor_name(call, "columns"), half, [&](Exprs i) {
    const Expr p = i[0];
    Exprs column;
    for (const Expr& row : numbers(w.points())) {
      i[0] = row;
      column.push_back(products(i));
    }
    return pick(p, winograd_output(w, column));
  });
  return {builder.compute(tensor_name(call), conv.out_shape(), [&](const Exprs& i) {
    const Expr& y = i[2 + conv.h()];
    const Expr& x = i[2 + conv.w()];
    const Expr m(conv.m);
    Exprs row;
    for (const Expr& column : numbers(w.points())) {
      Exprs at{floor_mod(y, m), column, i[0]};
      if (conv.deep()) at.push_back(i[2]);
      at.push_back(floor_div(y, m) * Expr(conv.tiles_wide()) + floor_div(x, m));
      at.push_back(i[1]);
      row.push_back(rows(at));
    }
    const Expr sum = pick(floor_mod(x, m), winograd_output(w, row));
    return call.has(2) ? sum + inputs[2]({i[1]}) : sum;
  })};
}

// ---- Reference: the direct convolution with the kernel that U is the transform of.

// w[oc][c][tap][3][3]: the first, the last and the difference of the second and third row of G have one entry each.
std::vector<double> kernels_of(const Winograd& w, const RefTensor& u, int64_t depth, int64_t channels,
                               int64_t out_channels) {
  const int64_t n = w.points();
  const int64_t each = depth * channels * out_channels;
  std::vector<double> kernels(9 * each);
  for (int64_t k = 0; k < each; ++k) {
    const auto element = [&](int64_t p, int64_t q) { return u.floats[(p * n + q) * each + k]; };
    const auto along_q = [&](int64_t p, int s) {
      if (s == 0) return element(p, 0) / w.weights[0][0];
      return s == 2 ? element(p, n - 1) : (element(p, 1) - element(p, 2)) / (w.weights[1][1] - w.weights[2][1]);
    };
    const int64_t oc = k % out_channels;
    const int64_t c = k / out_channels % channels;
    double* kernel = &kernels[((oc * channels + c) * depth + k / (out_channels * channels)) * 9];
    for (int s = 0; s < 3; ++s) {
      kernel[s] = along_q(0, s) / w.weights[0][0];
      kernel[3 + s] = (along_q(1, s) - along_q(2, s)) / (w.weights[1][1] - w.weights[2][1]);
      kernel[6 + s] = along_q(n - 1, s);
    }
  }
  return kernels;
}

void reference(const OpCall& call, Refs inputs, RefTensor& y) {
  const Conv conv = conv_of(call);
  const int64_t depth = conv.deep() ? conv.window.kernel[0] : 1;
  const std::vector<double> kernels = kernels_of(winograd(conv.m), inputs[1], depth, conv.channels, conv.out_channels);
  convolve(conv.window, {conv.batch, 1, conv.channels, conv.out_channels}, inputs[0].floats.data(), kernels.data(),
           y.floats.data());
  add_bias(call, inputs, y);
}

// ---- The bound of the error: a convolution on tiles, of the largest inputs with sums over kernels.

// The greatest |x| among the inputs of each tile: [n, c, (z,) tile row, tile column], z a depth of x.
std::vector<double> largest_inputs(const Conv& conv, const std::vector<double>& x) {
  const Shape& in = conv.window.in;
  const int64_t planes = conv.batch * conv.channels * (conv.deep() ? in[0] : 1);
  const int64_t height = in[conv.h()];
  const int64_t width = in[conv.w()];
  std::vector<double> largest(planes * conv.tiles(), 0.0);
  for (int64_t k = 0; k < std::ssize(largest); ++k) {
    const int64_t tile = k % conv.tiles();
    const int64_t top = tile / conv.tiles_wide() * conv.m - conv.window.pad_begin[conv.h()];
    const int64_t left = tile % conv.tiles_wide() * conv.m - conv.window.pad_begin[conv.w()];
    const double* plane = &x[k / conv.tiles() * height * width];
    for (int64_t i = std::max<int64_t>(0, top); i < std::min(height, top + conv.m + 2); ++i) {
      for (int64_t j = std::max<int64_t>(0, left); j < std::min(width, left + conv.m + 2); ++j)
        largest[k] = std::max(largest[k], std::fabs(plane[i * width + j]));
    }
  }
  return largest;
}

// The window over tiles: the third axis as it was, one point along the other two.
Window over_tiles(const Conv& conv) {
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

}  // namespace

graph::RefTensor winograd_magnitude(const OpCall& call, Refs inputs) {
  const Conv conv = conv_of(call);
  const int64_t depth = conv.deep() ? conv.window.kernel[0] : 1;
  const std::vector<double> kernels = kernels_of(winograd(conv.m), inputs[1], depth, conv.channels, conv.out_channels);
  std::vector<double> sums(kernels.size() / 9, 0.0);
  for (size_t i = 0; i < kernels.size(); ++i) sums[i / 9] += std::fabs(kernels[i]);
  const std::vector<double> largest = largest_inputs(conv, inputs[0].floats);
  RefTensor out = RefTensor::zeros(infer(call)[0]);
  const int64_t width = conv.window.out[conv.w()];
  const int64_t area = width * conv.window.out[conv.h()];
  std::vector<double> tiles(area == 0 ? 0 : out.floats.size() / area * conv.tiles());
  convolve(over_tiles(conv), {conv.batch, 1, conv.channels, conv.out_channels}, largest.data(), sums.data(),
           tiles.data());
  for (int64_t i = 0; i < std::ssize(out.floats); ++i) {
    const int64_t tile = i % area / width / conv.m * conv.tiles_wide() + i % width / conv.m;
    out.floats[i] = tiles[i / area * conv.tiles() + tile];
  }
  return out;
}

std::vector<OpDef> winograd_ops() {
  return {{"winograd_conv", OpClass::kContraction, infer, te_conv, filled<infer, reference>, {2, 3}}};
}

}  // namespace tw::ops
