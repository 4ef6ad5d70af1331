// unpool(x [N, C, out..], [indices i64 of x's shape]): what windows pass back to the elements that they read.
//   y[n, c, p..] = sum of x[n, c, o..] over the windows o that read position p
// and, with indices, only of those whose index is that of element (n, c, p..) in y, row-major, as max_pool reports it.
// Attributes: extents (spatial ones of y); kernel_shape, strides (ones), dilations (ones), pads (zeros, [begin..,
// end..]) and ceil_mode (0) of the pooling of y that has x's shape. Numbers; f16 and bf16 are summed in f32. te:
// position p is read by the windows from (p + pad) / stride on backwards; at most ceil(span / stride) along an axis.
#include "ops/families.h"
#include "ops/window.h"
#include "support/math.h"

namespace tw::ops {
namespace {

// The window of the pooling: its input is y.
Window pooling(const OpCall& call) {
  const TensorType& x = call.inputs[0];
  require(call, x.shape.size() >= 3, "the input is {}, expected [N, C, spatial..]", to_string(x));
  const TensorType y{x.type, joined(Shape{x.shape[0], x.shape[1]}, call.node.ints_attr("extents"))};
  const OutputSize size = call.node.int_attr_or("ceil_mode", 0) != 0 ? OutputSize::kCeil : OutputSize::kFloor;
  const OpCall pool{.node = call.node, .inputs = {y}, .present = {true}};
  Window window = window_of(pool, call.node.ints_attr("kernel_shape"), size);
  require(call, joined(Shape{x.shape[0], x.shape[1]}, window.out) == x.shape, "{} windows of {} for {}",
          to_string(window.out), to_string(y), to_string(x));
  return window;
}

Types infer(const OpCall& call) {
  const TensorType& x = call.inputs[0];
  require(call, x.type.is_float(), "the input is {}, expected floats", to_string(x));
  require(call, !call.has(1) || call.inputs[1] == TensorType{DataType::i64(), x.shape},
          "the indices are {}, expected i64 of shape {}", call.has(1) ? to_string(call.inputs[1]) : "absent",
          to_string(x.shape));
  return {{x.type, joined(Shape{x.shape[0], x.shape[1]}, pooling(call).in)}};
}

// Along an axis with a stride the sum has whole strides, from the first element of the padding on: so that what divides
// by the stride is an axis that can be cut in two (te/split_axes.h). `shift` elements of it come before y's first.
struct SumAxis {
  int64_t extent, shift;
};
SumAxis sum_axis(const Window& w, size_t d) {
  const int64_t stride = w.strides[d], pad = w.pad_begin[d];
  return stride == 1 ? SumAxis{w.in[d], 0} : SumAxis{ceil_div(w.in[d] + pad, stride) * stride, pad};
}

// The sum for index i of its axes, window r back.
Expr te_element(const OpCall& call, const Window& w, const Tensors& inputs, const Exprs& i, const Exprs& r) {
  const Shape strides = row_major_strides(joined(Shape{inputs[0].shape[0], inputs[0].shape[1]}, w.in));
  Exprs at{i[0], i[1]}, exist;
  Expr flat = i[0] * Expr(strides[0]) + i[1] * Expr(strides[1]);
  for (size_t d = 0; d < w.rank(); ++d) {
    const SumAxis axis = sum_axis(w, d);
    const bool strided = w.strides[d] > 1;
    const Expr stride(w.strides[d]), p = i[2 + d] + Expr(w.pad_begin[d] - axis.shift);
    at.push_back((strided ? floor_div(p, stride) : p) - r[d]);
    const Expr offset = r[d] * stride + (strided ? floor_mod(p, stride) : Expr(0));  // within the window
    exist.push_back(Expr(0) <= at.back() && at.back() < Expr(w.out[d]));
    if (w.dilated_kernel(d) % w.strides[d] != 0) exist.push_back(offset < Expr(w.dilated_kernel(d)));
    if (w.dilations[d] > 1) exist.push_back(floor_mod(offset, Expr(w.dilations[d])) == Expr(0));
    flat = flat + (i[2 + d] - Expr(axis.shift)) * Expr(strides[2 + d]);
  }
  const Expr value = read(inputs[0], at), zero = imm(value.type(), 0);
  return select(all_of(exist), call.has(1) ? select(inputs[1](at) == flat, value, zero) : value, zero);
}

Tensors te_unpool(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Window w = pooling(call);
  const TensorType y = infer(call)[0];
  Shape windows, extents{y.shape[0], y.shape[1]};
  for (size_t d = 0; d < w.rank(); ++d) {
    windows.push_back(ceil_div(w.dilated_kernel(d), w.strides[d]));
    extents.push_back(sum_axis(w, d).extent);
  }
  const bool direct = math_type(y.type) == y.type && extents == y.shape;
  const te::Tensor sum =
      builder.reduce(tensor_name(call, direct ? "" : "acc"), extents, windows, te::CombinerKind::kSum,
                     [&](const Exprs& i, const Exprs& r) { return te_element(call, w, inputs, i, r); });
  if (direct) return {sum};
  return {builder.compute(tensor_name(call), y.shape, [&](Exprs i) {
    for (size_t d = 0; d < w.rank(); ++d) i[2 + d] = i[2 + d] + Expr(sum_axis(w, d).shift);
    return cast(y.type, sum(i));
  })};
}

void reference(const OpCall& call, Refs inputs, RefTensor& y) {
  const Window w = pooling(call);
  const int64_t area = num_elements(w.in), positions = num_elements(w.out);
  const int64_t channels = y.type.shape[0] * y.type.shape[1];
  int64_t at = 0;
  for_each_index(w.out, [&](const std::vector<int64_t>& position) {
    for (const int64_t offset : window_offsets(w, position)) {
      for (int64_t channel = 0; channel < channels && offset >= 0; ++channel) {
        const int64_t to = channel * area + offset, from = channel * positions + at;
        if (!call.has(1) || inputs[1].ints[from] == to) y.floats[to] += inputs[0].floats[from];
      }
    }
    ++at;
  });
}

}  // namespace

std::vector<OpDef> unpool_ops() {
  return {{"unpool", OpClass::kReduction, infer, te_unpool, filled<infer, reference>, {1, 2}}};
}

}  // namespace tw::ops
