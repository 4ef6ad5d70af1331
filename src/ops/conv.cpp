// conv(x [N, C, spatial..], w [OC, C / group, kernel..], [bias [OC]]), one to three spatial axes, float:
//   y[n, oc, o] = bias[oc] + sum over ic, k of x[n, g * C / group + ic, o * stride - pad + k * dilation] * w[oc, ic,
//   k], g = oc / (OC / group)
// Attributes: strides (ones), dilations (ones), pads ([begin.., end..], zeros), group (1), operands ("tf32" or absent:
// ops/common.h). The kernel's shape is w's.
// te: `pad` (when padding is read), the plain sum of products, then bias and rounding.
//
// conv_integer(x, w, [x_zero_point], [w_zero_point]): the same sum over (x - x_zero_point) * (w - w_zero_point) in i32
// of u8 or i8 inputs; zero points are scalars or one-element tensors, w's also one for each output channel.
//
// conv_words(x, w): attributes of conv and words (ops/words.h): the sum over ic, k of the products of the words of x
// and w, in i32 or f32; ic counts words of channels, and x is 0 outside.
#include "ops/families.h"
#include "ops/ref_conv.h"
#include "ops/window.h"
#include "ops/words.h"

namespace tw::ops {
namespace {

struct Conv {
  Window window;
  int64_t batch, channels, out_channels, group;
  int64_t channels_each() const { return channels / group; }
  int64_t out_channels_each() const { return out_channels / group; }
  /// One filter for each channel: no sum over channels.
  bool depthwise() const { return group > 1 && channels_each() == 1; }
  ConvSizes sizes() const { return {batch, group, channels, out_channels}; }
  Shape out_shape() const { return joined({batch, out_channels}, window.out); }
};

Conv conv_of(const OpCall& call) {
  const Shape& x = call.inputs[0].shape;
  const Shape& w = call.inputs[1].shape;
  require(call, x.size() >= 3 && x.size() <= 5 && w.size() == x.size(),
          "input {} and weights {}, expected 3 to 5 dimensions each", to_string(call.inputs[0]),
          to_string(call.inputs[1]));
  const int64_t group = call.node.int_attr_or("group", 1);
  require(call, group >= 1 && x[1] % group == 0 && w[0] % group == 0 && w[1] * group == x[1],
          "{} input channels, weights {} and group {} do not fit", x[1], to_string(call.inputs[1]), group);
  return {window_of(call, Shape(w.begin() + 2, w.end())), x[0], x[1], w[0], group};
}

Types infer(const OpCall& call) {
  require_inputs(call, 2, 3);
  require_float(call, 0);
  require_same_type(call, 0, 1);
  const Conv conv = conv_of(call);
  require_bias(call, conv.out_channels);
  return {{call.inputs[0].type, conv.out_shape()}};
}

// The channel of x that output channel oc reads as its ic-th (ic is unused for depthwise convolutions).
Expr input_channel(const Conv& conv, const Expr& oc, const Expr& ic) {
  if (conv.group == 1) return ic;
  const Expr group = conv.out_channels_each() == 1 ? oc : floor_div(oc, Expr(conv.out_channels_each()));
  return conv.depthwise() ? group : group * Expr(conv.channels_each()) + ic;
}

// The contraction: x is padded, both operands are read in their math types.
te::Tensor te_contraction(te::Builder& builder, const std::string& name, const Conv& conv, const Tensors& operands,
                          const std::vector<int64_t>& offset, const Product& product) {
  Shape reduce_shape = conv.window.kernel;
  if (!conv.depthwise()) reduce_shape.insert(reduce_shape.begin(), conv.channels_each());
  return builder.reduce(name, conv.out_shape(), reduce_shape, te::CombinerKind::kSum,
                        [&](const Exprs& i, const Exprs& r) {
                          const size_t first = conv.depthwise() ? 0 : 1;
                          const Expr ic = conv.depthwise() ? Expr(0) : r[0];
                          Exprs at_x{i[0], input_channel(conv, i[1], ic)};
                          Exprs at_w{i[1], ic};
                          for (size_t d = 0; d < conv.window.rank(); ++d) {
                            at_x.push_back(window_index(conv.window, d, i[2 + d], r[first + d], offset[d]));
                            at_w.push_back(r[first + d]);
                          }
                          return product(read(operands[0], at_x), read(operands[1], at_w));
                        });
}

Tensors te_conv(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Conv conv = conv_of(call);
  const DataType type = inputs[0].type;
  std::vector<int64_t> offset;
  const te::Tensor x = pad_for_window(call, builder, inputs[0], conv.window, imm(type, 0), &offset);
  const bool direct = !call.has(2) && math_type(type) == type;
  const te::Tensor sum =
      te_contraction(builder, tensor_name(call, direct ? "" : "acc"), conv, {x, inputs[1]}, offset, product_of(call));
  if (direct) return {sum};
  return {builder.compute(tensor_name(call), sum.shape, [&](const Exprs& i) {
    return cast(type, call.has(2) ? sum(i) + read(inputs[2], {i[1]}) : sum(i));
  })};
}

std::vector<RefTensor> reference(const OpCall& call, Refs inputs) {
  const Conv conv = conv_of(call);
  RefTensor y = RefTensor::zeros(infer(call)[0]);
  std::vector<double> rounded[2];
  convolve(conv.window, conv.sizes(), multiplied(call, inputs[0], rounded[0]).data(),
           multiplied(call, inputs[1], rounded[1]).data(), y.floats.data());
  const int64_t positions = num_elements(conv.window.out);
  for (int64_t i = 0; call.has(2) && i < y.type.elements(); ++i)
    y.floats[i] += inputs[2].floats[i / positions % conv.out_channels];
  return {std::move(y)};
}

// ---- Integers.

Types infer_integer(const OpCall& call) {
  require_inputs(call, 2, 4);
  require_byte(call, 0);
  require_byte(call, 1);
  const Conv conv = conv_of(call);
  for (size_t k : {2, 3}) {
    if (!call.has(k)) continue;
    require_same_type(call, k - 2, k);
    const int64_t count = call.inputs[k].elements();
    require(call, call.inputs[k].shape.size() <= 1 && (count == 1 || (k == 3 && count == conv.out_channels)),
            "the zero point is {}", to_string(call.inputs[k]));
  }
  return {{DataType::i32(), conv.out_shape()}};
}

// x - zero point in i32; the zero point has one element, or one for each index of the first axis.
te::Tensor shifted(const OpCall& call, te::Builder& builder, const Tensors& inputs, size_t k) {
  const te::Tensor& x = inputs[k];
  return builder.compute(tensor_name(call, k == 0 ? "x" : "w"), x.shape, [&](const Exprs& i) {
    const Expr value = cast(DataType::i32(), x(i));
    if (!call.has(2 + k)) return value;
    const te::Tensor& zero = inputs[2 + k];
    const Exprs at = zero.shape.empty() ? Exprs{} : Exprs{zero.shape[0] == 1 ? Expr(0) : i[0]};
    return value - cast(DataType::i32(), zero(at));
  });
}

Tensors te_integer(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Conv conv = conv_of(call);
  std::vector<int64_t> offset;
  const te::Tensor centred = shifted(call, builder, inputs, 0);
  const te::Tensor x = pad_for_window(call, builder, centred, conv.window, int_imm(0, DataType::i32()), &offset);
  const te::Tensor w = shifted(call, builder, inputs, 1);
  return {te_contraction(builder, tensor_name(call), conv, {x, w}, offset, product_of(call))};
}

// Exact in f64: 8-bit differences, and sums below 2^53.
std::vector<RefTensor> ref_integer(const OpCall& call, Refs inputs) {
  const Conv conv = conv_of(call);
  std::vector<double> operands[2];
  for (size_t k : {0, 1}) {
    const int64_t each = num_elements(Shape(inputs[k].type.shape.begin() + 1, inputs[k].type.shape.end()));
    for (size_t i = 0; i < inputs[k].ints.size(); ++i) {
      int64_t zero = 0;
      if (call.has(2 + k))
        zero = inputs[2 + k].ints[inputs[2 + k].ints.size() == 1 ? 0 : static_cast<int64_t>(i) / each];
      operands[k].push_back(static_cast<double>(inputs[k].ints[i] - zero));
    }
  }
  RefTensor y = RefTensor::zeros(infer_integer(call)[0]);
  std::vector<double> sums(y.ints.size());
  convolve(conv.window, conv.sizes(), operands[0].data(), operands[1].data(), sums.data());
  for (size_t i = 0; i < sums.size(); ++i) y.ints[i] = graph::wrap_int(static_cast<int64_t>(sums[i]), DataType::i32());
  return {std::move(y)};
}

// ---- Words.

Types infer_words(const OpCall& call) {
  require_inputs(call, 2, 2);
  require_words(call, 0);
  require_words(call, 1);
  return {{sum_type(word_format(call)), conv_of(call).out_shape()}};
}

Tensors te_words(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Conv conv = conv_of(call);
  std::vector<int64_t> offset;
  const Expr zero = int_imm(0, DataType::i32());
  const te::Tensor x = pad_for_window(call, builder, inputs[0], conv.window, zero, &offset);
  return {te_contraction(builder, tensor_name(call), conv, {x, inputs[1]}, offset, product_of_words(call))};
}

// Every number of a word is a channel of its own.
std::vector<RefTensor> ref_words(const OpCall& call, Refs inputs) {
  const Conv conv = conv_of(call);
  const WordFormat format = word_format(call);
  const auto numbers = [&](size_t k, WordSide side) {
    const Shape& shape = inputs[k].type.shape;
    const int64_t inner = num_elements(Shape(shape.begin() + 2, shape.end()));
    return unpacked(inputs[k].ints, inner, format, side);
  };
  const std::vector<double> x = numbers(0, WordSide::kLeft), w = numbers(1, WordSide::kRight);
  std::vector<double> sums(static_cast<size_t>(num_elements(conv.out_shape())));
  ConvSizes sizes = conv.sizes();
  sizes.channels *= numbers_of(format);
  convolve(conv.window, sizes, x.data(), w.data(), sums.data());
  return {of_sums(infer_words(call)[0], std::move(sums))};
}

}  // namespace

std::vector<OpDef> conv_ops() {
  return {{"conv", OpClass::kContraction, infer, te_conv, reference},
          {"conv_integer", OpClass::kContraction, infer_integer, te_integer, ref_integer},
          {"conv_words", OpClass::kContraction, infer_words, te_words, ref_words}};
}

}  // namespace tw::ops
