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
#include "ops/ref_product.h"
#include "ops/words.h"

namespace tw::ops {
namespace {

struct Conv {
  Window window;
  Channels channels;
  Shape out_shape() const { return joined(Shape{channels.batch, channels.out_channels}, window.out); }
};

Conv conv_of(const OpCall& call) {
  const Channels channels = channels_of(call);
  const Shape& w = call.inputs[1].shape;
  return {window_of(call, Shape(w.begin() + 2, w.end())), channels};
}

// The contraction: x is padded, both operands are read in their math types.
te::Tensor te_contraction(te::Builder& builder, const std::string& name, const Conv& conv, const Tensors& operands,
                          const std::vector<int64_t>& offset, const MultiplyFn& product) {
  Shape reduce_shape = conv.window.kernel;
  const Channels& c = conv.channels;
  if (!c.depthwise()) reduce_shape.insert(reduce_shape.begin(), c.each());
  return builder.reduce(name, conv.out_shape(), reduce_shape, te::CombinerKind::kSum,
                        [&](const Exprs& i, const Exprs& r) {
                          const size_t first = c.depthwise() ? 0 : 1;
                          const Expr ic = c.depthwise() ? Expr(0) : r[0];
                          Exprs at_x{i[0], c.input(i[1], ic)};
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
  std::vector<int64_t> offset;
  const te::Tensor x = pad_for_window(call, builder, inputs[0], conv.window, imm(inputs[0].type, 0), &offset);
  const te::Tensor sum = te_contraction(builder, sum_name(call), conv, {x, inputs[1]}, offset, product_of(call));
  return with_bias(call, builder, sum, inputs);
}

void reference(const OpCall& call, Refs inputs, RefTensor& y) {
  const Conv conv = conv_of(call);
  std::vector<double> rounded[2];
  convolve(conv.window, conv.channels, multiplied(call, inputs[0], rounded[0]).data(),
           multiplied(call, inputs[1], rounded[1]).data(), y.floats.data());
  add_bias(call, inputs, y);
}

// ---- Integers.

Types infer_integer(const OpCall& call) {
  require_byte(call, 0);
  require_byte(call, 1);
  const Conv conv = conv_of(call);
  for (size_t k : {2, 3}) {
    if (!call.has(k)) continue;
    require_same_type(call, k - 2, k);
    const int64_t count = call.inputs[k].elements();
    require(call, call.inputs[k].shape.size() <= 1 && (count == 1 || (k == 3 && count == conv.channels.out_channels)),
            "the zero point is {}", to_string(call.inputs[k]));
  }
  return {{DataType::i32(), conv.out_shape()}};
}

Tensors te_integer(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Conv conv = conv_of(call);
  std::vector<int64_t> offset;
  const te::Tensor centred = less_zero_point(call, builder, inputs, 0, 0);
  const te::Tensor x = pad_for_window(call, builder, centred, conv.window, int_imm(0, DataType::i32()), &offset);
  const te::Tensor w = less_zero_point(call, builder, inputs, 1, 0);
  return {te_contraction(builder, tensor_name(call), conv, {x, w}, offset, product_of(call))};
}

// Exact in f64: 8-bit differences, and sums below 2^53.
void ref_integer(const OpCall& call, Refs inputs, RefTensor& y) {
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
  std::vector<double> sums(y.ints.size());
  convolve(conv.window, conv.channels, operands[0].data(), operands[1].data(), sums.data());
  for (size_t i = 0; i < sums.size(); ++i) y.ints[i] = graph::wrap_int(static_cast<int64_t>(sums[i]), DataType::i32());
}

// ---- Words.

Types infer_words(const OpCall& call) {
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
  Channels channels = conv.channels;
  channels.channels *= numbers_of(format);
  convolve(conv.window, channels, x.data(), w.data(), sums.data());
  return {of_sums(infer_words(call)[0], std::move(sums))};
}

}  // namespace

std::vector<OpDef> conv_ops() {
  return {
      {"conv", OpClass::kContraction, infer_conv<conv_of>, te_conv, filled<infer_conv<conv_of>, reference>, {2, 3}},
      {"conv_integer", OpClass::kContraction, infer_integer, te_integer, filled<infer_integer, ref_integer>, {2, 4}},
      {"conv_words", OpClass::kContraction, infer_words, te_words, ref_words, {2, 2}}};
}

}  // namespace tw::ops
