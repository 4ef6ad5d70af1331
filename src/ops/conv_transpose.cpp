// conv_transpose(x [N, C, spatial..], w [C, OC / group, kernel..], [bias [OC]]), float:
//   y[n, oc, o] = bias[oc] + sum over ic, k, i with i * stride - pad_begin + k * dilation = o of x[n, ic, i] * w[ic,
//   oc, k]
// Attributes: strides (ones), dilations (ones), pads ([begin.., end..], zeros), output_padding (zeros), group (1).
// Output extent: (in - 1) * stride + output_padding + (k - 1) * dilation + 1 - pad_begin - pad_end.
// te: x with stride - 1 zeros between its elements and zeros around it, then a plain sum of products with the kernel
// read backwards, then bias and rounding.
#include "ops/families.h"
#include "ops/window.h"
#include "support/math.h"

namespace tw::ops {
namespace {

struct Transposed {
  Shape in, kernel, out;  // spatial
  std::vector<int64_t> strides, dilations, pad_begin;
  Channels channels;
  size_t rank() const { return in.size(); }
  Shape out_shape() const { return joined(Shape{channels.batch, channels.out_channels}, out); }
};

Transposed transposed_of(const OpCall& call) {
  const Shape& x = call.inputs[0].shape;
  const Shape& w = call.inputs[1].shape;
  const int64_t group = call.node.int_attr_or("group", 1);
  require(call, x.size() >= 3 && x.size() <= 5 && w.size() == x.size(),
          "input {} and weights {}, expected 3 to 5 dimensions each", to_string(call.inputs[0]),
          to_string(call.inputs[1]));
  require(call, group >= 1 && x[1] % group == 0 && w[0] == x[1],
          "{} input channels, weights {} and group {} do not fit", x[1], to_string(call.inputs[1]), group);
  const size_t rank = x.size() - 2;
  Transposed t{{x.begin() + 2, x.end()}, {w.begin() + 2, w.end()}, {}, {}, {}, {}, {x[0], group, x[1], w[1] * group}};
  t.strides = call.node.ints_attr_or("strides", std::vector<int64_t>(rank, 1));
  t.dilations = call.node.ints_attr_or("dilations", std::vector<int64_t>(rank, 1));
  const std::vector<int64_t> pads = call.node.ints_attr_or("pads", std::vector<int64_t>(2 * rank, 0));
  const std::vector<int64_t> extra = call.node.ints_attr_or("output_padding", std::vector<int64_t>(rank, 0));
  require(call,
          t.strides.size() == rank && t.dilations.size() == rank && pads.size() == 2 * rank && extra.size() == rank,
          "attributes do not have {} spatial axes", rank);
  t.pad_begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(rank));
  for (size_t d = 0; d < rank; ++d) {
    require(call, t.strides[d] > 0 && t.dilations[d] > 0 && t.kernel[d] > 0 && t.in[d] > 0,
            "stride {}, dilation {}, kernel {}, input {}", t.strides[d], t.dilations[d], t.kernel[d], t.in[d]);
    const int64_t out =
        (t.in[d] - 1) * t.strides[d] + extra[d] + (t.kernel[d] - 1) * t.dilations[d] + 1 - pads[d] - pads[rank + d];
    require(call, out > 0, "output extent {} along spatial axis {}", out, d);
    t.out.push_back(out);
  }
  return t;
}

// spread[p] = x[(p - first) / stride] where that is a whole number inside x, else 0; first = (k - 1) * dilation -
// pad_begin. Then y[o] = sum over r of spread[o + r * dilation] * w[k - 1 - r].
te::Tensor te_spread(const OpCall& call, te::Builder& builder, const te::Tensor& x, const Transposed& t) {
  Shape shape(x.shape.begin(), x.shape.begin() + 2);
  for (size_t d = 0; d < t.rank(); ++d) shape.push_back(t.out[d] + (t.kernel[d] - 1) * t.dilations[d]);
  return builder.compute(tensor_name(call, "spread"), shape, [&](const Exprs& i) {
    Exprs at{i[0], i[1]};
    Exprs conditions;
    for (size_t d = 0; d < t.rank(); ++d) {
      const int64_t first = (t.kernel[d] - 1) * t.dilations[d] - t.pad_begin[d];
      const Expr p = i[2 + d] - Expr(first);
      const Expr stride(t.strides[d]);
      at.push_back(floor_div(p, stride));
      const int64_t last = shape[2 + d] - 1 - first;
      conditions.push_back(inside(at.back(), t.in[d], floor_div(-first, t.strides[d]), floor_div(last, t.strides[d])));
      if (t.strides[d] > 1) conditions.push_back(floor_mod(p, stride) == Expr(0));
    }
    return select(all_of(conditions), x(at), imm(x.type, 0));
  });
}

Tensors te_transposed(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Transposed t = transposed_of(call);
  const te::Tensor spread = te_spread(call, builder, inputs[0], t);
  const Shape reduce_shape = joined(Shape{t.channels.each()}, t.kernel);
  const Expr each(t.channels.out_each());
  const te::Tensor sum = builder.reduce(sum_name(call), t.out_shape(), reduce_shape, te::CombinerKind::kSum,
                                        [&](const Exprs& i, const Exprs& r) {
                                          const Expr ic = t.channels.input(i[1], r[0]);
                                          Exprs at_x{i[0], ic};
                                          Exprs at_w{ic, t.channels.group == 1 ? i[1] : floor_mod(i[1], each)};
                                          for (size_t d = 0; d < t.rank(); ++d) {
                                            at_x.push_back(i[2 + d] + r[1 + d] * Expr(t.dilations[d]));
                                            at_w.push_back(Expr(t.kernel[d] - 1) - r[1 + d]);
                                          }
                                          return read(spread, at_x) * read(inputs[1], at_w);
                                        });
  return with_bias(call, builder, sum, inputs);
}

constexpr auto infer = infer_conv<transposed_of>;

// out[i * stride - pad_begin + k * dilation] += weight * x[i] over all i, for one filter position k of the kernel.
void add_position(const Transposed& t, const std::vector<int64_t>& k, double weight, const double* x, double* out) {
  const size_t last = t.rank() - 1;
  const int64_t shift = k[last] * t.dilations[last] - t.pad_begin[last];
  for_each_index(Shape(t.in.begin(), t.in.end() - 1), [&](const std::vector<int64_t>& row) {
    const double* from = x;
    x += t.in[last];
    int64_t offset = 0;
    for (size_t d = 0; d < last; ++d) {
      const int64_t o = row[d] * t.strides[d] - t.pad_begin[d] + k[d] * t.dilations[d];
      if (o < 0 || o >= t.out[d]) return;
      offset = offset * t.out[d] + o;
    }
    double* to = out + offset * t.out[last];
    for (int64_t i = 0; i < t.in[last]; ++i) {
      const int64_t o = i * t.strides[last] + shift;
      if (o >= 0 && o < t.out[last]) to[o] += weight * from[i];
    }
  });
}

// Scatters: every input element adds its multiple of the kernel. One output channel at a time, in parallel.
void reference(const OpCall& call, Refs inputs, RefTensor& y) {
  const Transposed t = transposed_of(call);
  const auto& [batch, group, channels, out_channels] = t.channels;
  const int64_t each = t.channels.each(), out_each = t.channels.out_each();
  const int64_t in_area = num_elements(t.in), out_area = num_elements(t.out), positions = num_elements(t.kernel);
  const auto add_channel = [&](int64_t n, int64_t oc) {
    double* out = y.floats.data() + (n * out_channels + oc) * out_area;
    for (int64_t c = 0; c < each; ++c) {
      const int64_t ic = oc / out_each * each + c;
      const double* weight = inputs[1].floats.data() + (ic * out_each + oc % out_each) * positions;
      const double* x = inputs[0].floats.data() + (n * channels + ic) * in_area;
      for_each_index(t.kernel, [&](const std::vector<int64_t>& k) { add_position(t, k, *weight++, x, out); });
    }
  };
  parallel_ranges(batch * out_channels, each * positions * in_area, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) add_channel(k / out_channels, k % out_channels);
  });
  add_bias(call, inputs, y);
}

}  // namespace

std::vector<OpDef> conv_transpose_ops() {
  return {{"conv_transpose", OpClass::kContraction, infer, te_transposed, filled<infer, reference>, {2, 3}}};
}

}  // namespace tw::ops
