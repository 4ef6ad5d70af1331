// Convolution with 3 x 3 kernels by Winograd's algorithm F(m x m, 3 x 3), m = 2 or 4 (ops/winograd.h), in f32. A third
// spatial axis, the first one, is summed over directly.
//
// winograd_conv(x [N, C, (D,) H, W], U, w [OC, C, (KD,) 3, 3], scales [C], [bias [OC]]) -> y [N, OC, (D',) H', W']:
// conv(x, w, bias). U [m + 2, m + 2, (KD,) C, OC] is the transform of w:
//   U[p, q, .., c, oc] = sum over r, s of G[p, r] w[oc, c, .., r, s] G[q, s]
// and scales are the sizes of the weights of each channel (winograd_scales).
// Attributes: m, strides, dilations, pads as conv; stride and dilation of the last two axes are 1.
// te, for the tile t of m x m output points of one image (or of one depth):
//   V[p, q, n, (z,) t, c] = (B^T d B)[p, q], d the (m + 2) x (m + 2) inputs of the tile in channel c (depth z)
//   M[p, q, n, (o,) t, oc] = sum over c, (depth position r) of V[p, q, n, (z of o and r,) t, c] * U[p, q, (r,) c, oc]
//   y = A^T M A for each tile that is not uneven, the direct sum for others (ops/winograd_uneven.cpp), plus bias
// Both transforms take two steps, along rows and along columns. NaN and infinities reach the outputs that read them.
#include "ops/families.h"
#include "ops/winograd_geometry.h"

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

// The window of all points of all tiles: the last ones may reach over the edges of the output.
Window of_tiles(const WinogradConv& conv) {
  Window all = conv.window;
  all.out[conv.h()] = conv.tiles_high() * conv.m;
  all.out[conv.w()] = conv.tiles_wide() * conv.m;
  return all;
}

Types infer(const OpCall& call) {
  const WinogradConv conv = winograd_conv_of(call);
  require_bias(call, conv.out_channels, kWinogradBias);
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
  return mapped(sequence(count), [](int64_t k) { return Expr(k); });
}

// V; the first two axes p, q, then n, (z,) t, c.
te::Tensor te_input(const OpCall& call, te::Builder& builder, const WinogradConv& conv, const te::Tensor& x) {
  const Winograd& w = winograd(conv.m);
  const Window all = of_tiles(conv);
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

te::Tensor te_products(const OpCall& call, te::Builder& builder, const WinogradConv& conv, const te::Tensor& v,
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
  const WinogradConv conv = winograd_conv_of(call);
  const Winograd& w = winograd(conv.m);
  const te::Tensor uneven = te_uneven(call, builder, conv, inputs);
  const te::Tensor direct = te_direct(call, builder, conv, inputs);
  const te::Tensor v = te_input(call, builder, conv, inputs[kWinogradX]);
  const te::Tensor products = te_products(call, builder, conv, v, inputs[kWinogradTransformed]);
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
    Exprs tile{i[0]};  // [n, (o,) row, column]
    if (conv.deep()) tile.push_back(i[2]);
    Exprs row;
    for (const Expr& column : numbers(w.points())) {
      Exprs at = joined(Exprs{floor_mod(y, m), column}, tile);
      at.push_back(floor_div(y, m) * Expr(conv.tiles_wide()) + floor_div(x, m));
      at.push_back(i[1]);
      row.push_back(rows(at));
    }
    tile.push_back(floor_div(y, m));
    tile.push_back(floor_div(x, m));
    const Expr directly = direct(joined(tile, Exprs{floor_mod(y, m), floor_mod(x, m), i[1]}));
    const Expr sum = select(uneven(tile), directly, pick(floor_mod(x, m), winograd_output(w, row)));
    return call.has(kWinogradBias) ? sum + inputs[kWinogradBias]({i[1]}) : sum;
  })};
}

void reference(const OpCall& call, Refs inputs, RefTensor& y) {
  const WinogradConv conv = winograd_conv_of(call);
  convolve(conv.window, conv.all_channels(), inputs[kWinogradX].floats.data(), inputs[kWinogradKernels].floats.data(),
           y.floats.data());
  add_bias(call, inputs, y, kWinogradBias);
}

}  // namespace

WinogradConv winograd_conv_of(const OpCall& call) {
  for (size_t k = 0; k < kWinogradBias; ++k) require_f32(call, k);
  const Shape& x = call.inputs[kWinogradX].shape;
  const Shape& u = call.inputs[kWinogradTransformed].shape;
  const Shape& w = call.inputs[kWinogradKernels].shape;
  const int64_t m = tile_size(call);
  require(call, (x.size() == 4 || x.size() == 5) && w.size() == x.size() && w[1] == x[1],
          "input {} and weights {} do not fit", to_string(call.inputs[kWinogradX]),
          to_string(call.inputs[kWinogradKernels]));
  require(call, w[w.size() - 2] == 3 && w.back() == 3 && u == winograd_weights_shape(w, m),
          "weights {} and transformed ones {} do not fit tiles of {} x {}", to_string(call.inputs[kWinogradKernels]),
          to_string(call.inputs[kWinogradTransformed]), m, m);
  require(call, call.inputs[kWinogradScales].shape == Shape{w[1]}, "{} input channels and scales {}", w[1],
          to_string(call.inputs[kWinogradScales]));
  const WinogradConv conv{window_of(call, Shape(w.begin() + 2, w.end())), m, x[0], x[1], w[0]};
  for (const size_t d : {conv.h(), conv.w()}) {
    require(call, conv.window.strides[d] == 1 && conv.window.dilations[d] == 1,
            "stride {} and dilation {} of a spatial axis, expected 1", conv.window.strides[d],
            conv.window.dilations[d]);
  }
  return conv;
}

std::vector<OpDef> winograd_ops() {
  return {{"winograd_conv", OpClass::kContraction, infer, te_conv, filled<infer, reference>, {4, 5}}};
}

}  // namespace tw::ops
