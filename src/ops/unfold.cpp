// unfold(x [N, C, spatial..]): the pixels of each window as channels (im2col that leaves the axes where they are):
//   y[n, k * C + c, o..] = x[n, c, o * stride - pad + k * dilation], 0 outside of x; k counts a window's pixels,
//   row-major
// Attributes: kernel_shape, strides (ones), dilations (ones), pads ([begin.., end..], zeros). Axes of kernel_shape 1
// and stride 1 stay as they are.
#include "ops/families.h"
#include "ops/window.h"

namespace tw::ops {
namespace {

Window unfolded(const OpCall& call) { return window_of(call, call.node.ints_attr("kernel_shape")); }

Types infer_unfold(const OpCall& call) {
  const Window window = unfolded(call);
  const TensorType& x = call.inputs[0];
  return {{x.type, joined(Shape{x.shape[0], num_elements(window.kernel) * x.shape[1]}, window.out)}};
}

Tensors te_unfold(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Window window = unfolded(call);
  const te::Tensor& x = inputs[0];
  const Expr channels(x.shape[1]);
  return {builder.compute(tensor_name(call), infer_unfold(call)[0].shape, [&](const Exprs& i) {
    Exprs at = i, conditions;
    at[1] = floor_mod(i[1], channels);
    Expr pixel = floor_div(i[1], channels);
    for (size_t d = window.rank(); d-- > 0;) {
      const Expr k = d == 0 ? pixel : floor_mod(pixel, Expr(window.kernel[d]));
      pixel = floor_div(pixel, Expr(window.kernel[d]));
      at[2 + d] = window_index(window, d, i[2 + d], k, 0);
      conditions.push_back(inside(at[2 + d], window.in[d], window.lowest(d), window.highest(d)));
    }
    return select(all_of(conditions), x(at), imm(x.type, 0));
  })};
}

std::vector<RefTensor> ref_unfold(const OpCall& call, Refs inputs) {
  const Window window = unfolded(call);
  const Shape& x = inputs[0].type.shape;
  const int64_t plane = num_elements(window.in);
  return {moved(infer_unfold(call)[0], inputs[0], [&](const std::vector<int64_t>& index) {
    const int64_t from = window_offsets(window, {index.begin() + 2, index.end()})[index[1] / x[1]];
    return from < 0 ? -1 : (index[0] * x[1] + index[1] % x[1]) * plane + from;
  })};
}

}  // namespace

std::vector<OpDef> unfold_ops() { return {{"unfold", OpClass::kInjective, infer_unfold, te_unfold, ref_unfold}}; }

}  // namespace tw::ops
