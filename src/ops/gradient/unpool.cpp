// unpool(x [N, C, windows..], [places i32 of x's shape]): what windows pass back to the elements that they read.
//   y[n, c, p..] = sum of x[n, c, o..] over the windows o that read position p: p = o * stride - pad + k * dilation
// and, with places, only of those whose place is the number of k, row-major in kernel_shape.
// Attributes: extents (y's spatial ones), kernel_shape; strides, dilations (ones), pads (zeros), one for each spatial
// axis. A stride divides its extent and goes without dilation. Floats; f16 and bf16 are summed in f32. te: the sum
// counts back from the last window that can read p; at most ceil(kernel / stride) along an axis.
//
// max_places(x, y = max_pool(x)): i32 of y's shape: the number, row-major in kernel_shape, of the first element of each
// window that is its largest, a NaN where the window has one; of windows that read padding only as many as a window
// reads. Attributes: those of max_pool. te: the least number of those that equal y, a reduction of one value that goes
// along any axis.
#include "ops/families.h"
#include "ops/window.h"
#include "support/math.h"

namespace tw::ops {
namespace {

using Ints = std::vector<int64_t>;

struct Unpool {
  Shape extents, kernel, windows;  // spatial
  Ints strides, dilations, pads;
  size_t rank() const { return extents.size(); }
};

Unpool unpool_of(const OpCall& call) {
  const Shape& x = call.inputs[0].shape;
  require(call, x.size() >= 3, "the input is {}, expected [N, C, spatial..]", to_string(call.inputs[0]));
  const size_t rank = x.size() - 2;
  const graph::Node& node = call.node;
  const Shape& extents = node.ints_attr("extents");
  Unpool u{extents,
           node.ints_attr("kernel_shape"),
           {x.begin() + 2, x.end()},
           node.ints_attr_or("strides", Ints(rank, 1)),
           node.ints_attr_or("dilations", Ints(rank, 1)),
           node.ints_attr_or("pads", Ints(rank, 0))};
  for (const Ints& list : {u.extents, u.kernel, u.strides, u.dilations, u.pads})
    require(call, list.size() == rank, "an attribute of {} numbers for {} spatial axes", list.size(), rank);
  for (size_t d = 0; d < rank; ++d) {
    require(call, u.strides[d] > 0 && u.dilations[d] > 0 && u.kernel[d] > 0 && u.pads[d] >= 0 && u.extents[d] >= 0,
            "extent {}, kernel {}, stride {}, dilation {}, pad {}", u.extents[d], u.kernel[d], u.strides[d],
            u.dilations[d], u.pads[d]);
    require(call, u.strides[d] == 1 || (u.dilations[d] == 1 && u.extents[d] % u.strides[d] == 0),
            "a stride of {} with extent {} and dilation {}", u.strides[d], u.extents[d], u.dilations[d]);
  }
  return u;
}

Types infer(const OpCall& call) {
  const TensorType& x = call.inputs[0];
  require_float(call, 0);
  require(call, !call.has(1) || call.inputs[1] == TensorType{DataType::i32(), x.shape},
          "the places are {}, expected i32 of shape {}", call.has(1) ? to_string(call.inputs[1]) : "absent",
          to_string(x.shape));
  return {{x.type, joined(Shape{x.shape[0], x.shape[1]}, unpool_of(call).extents)}};
}

// Along axis d at index i: the last window that may read it, and the place within that window. Of p = i + pad only the
// axis itself is divided, so that it can become two (te/split_axes.cpp): p / s = i / s + pad / s, and one more where
// the remainders make a stride.
struct LastWindow {
  Expr number, place;
};
LastWindow last_window(const Unpool& u, size_t d, const Expr& i) {
  const int64_t stride = u.strides[d], rest = u.pads[d] % stride;
  if (stride == 1) return {i + Expr(u.pads[d]), Expr(0)};
  const Expr quotient = floor_div(i, Expr(stride)) + Expr(u.pads[d] / stride), phase = floor_mod(i, Expr(stride));
  if (rest == 0) return {quotient, phase};
  const Expr carries = Expr(stride - rest) <= phase;
  return {quotient + select(carries, Expr(1), Expr(0)), phase + select(carries, Expr(rest - stride), Expr(rest))};
}

Tensors te_unpool(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Unpool u = unpool_of(call);
  const TensorType y = infer(call)[0];
  Shape readers = by_index(u.rank(), [&](size_t d) { return ceil_div(u.kernel[d], u.strides[d]); });
  const auto element = [&](const Exprs& i, const Exprs& r) {
    Exprs at{i[0], i[1]}, exist;
    Expr place = Expr(0);
    for (size_t d = 0; d < u.rank(); ++d) {
      const LastWindow last = last_window(u, d, i[2 + d]);
      const Expr k = r[d] * Expr(u.strides[d]) + last.place;
      at.push_back(last.number - r[d] * Expr(u.dilations[d]));
      exist.push_back(Expr(0) <= at.back() && at.back() < Expr(u.windows[d]));
      const bool whole = u.kernel[d] % u.strides[d] == 0;
      if (!whole) exist.push_back(k < Expr(u.kernel[d]));
      place = place * Expr(u.kernel[d]) + k;
    }
    const Expr value = read(inputs[0], at), zero = imm(value.type(), 0);
    if (!call.has(1)) return select(all_of(exist), value, zero);
    return select(all_of(exist), select(inputs[1](at) == cast(DataType::i32(), place), value, zero), zero);
  };
  const bool direct = math_type(y.type) == y.type;
  const te::Tensor sum =
      builder.reduce(tensor_name(call, direct ? "" : "acc"), y.shape, readers, te::CombinerKind::kSum, element);
  return {cast_output(call, builder, sum, y.type)};
}

// Every window passes its value on to all that it reads.
void reference(const OpCall& call, Refs inputs, RefTensor& y) {
  const Unpool u = unpool_of(call);
  const Shape to_strides = row_major_strides(y.type.shape);
  int64_t from = 0;
  for_each_index(inputs[0].type.shape, [&](const std::vector<int64_t>& window) {
    int64_t place = 0;
    for_each_index(u.kernel, [&](const std::vector<int64_t>& k) {
      int64_t to = window[0] * to_strides[0] + window[1] * to_strides[1];
      for (size_t d = 0; d < u.rank() && to >= 0; ++d) {
        const int64_t p = window[2 + d] * u.strides[d] - u.pads[d] + k[d] * u.dilations[d];
        to = p < 0 || p >= u.extents[d] ? -1 : to + p * to_strides[2 + d];
      }
      if (to >= 0 && (!call.has(1) || inputs[1].ints[from] == place)) y.floats[to] += inputs[0].floats[from];
      ++place;
    });
    ++from;
  });
}

// ---- max_places.

Types infer_places(const OpCall& call) {
  const TensorType& x = call.inputs[0];
  const TensorType y{x.type, joined(Shape{x.shape[0], x.shape[1]}, pool_window(call).out)};
  require_float(call, 0);
  require(call, call.inputs[1] == y, "the maxima are {}, expected {}", to_string(call.inputs[1]), to_string(y));
  return {{DataType::i32(), y.shape}};
}

Tensors te_places(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Window window = pool_window(call);
  const Expr none = int_imm(num_elements(window.kernel), DataType::i32());
  const auto element = [&](const Exprs& i, const Exprs& r) {
    Exprs at{i[0], i[1]}, exist;
    Expr place = Expr(0);
    for (size_t d = 0; d < window.rank(); ++d) {
      at.push_back(window_index(window, d, i[2 + d], r[d], 0));
      exist.push_back(inside(at.back(), window.in[d], window.lowest(d), window.highest(d)));
      place = place * Expr(window.kernel[d]) + r[d];
    }
    const Expr x = read(inputs[0], at);
    const Expr largest = x == read(inputs[1], i) || x != x;
    return select(all_of(exist), select(largest, cast(DataType::i32(), place), none), none);
  };
  return {
      builder.reduce(tensor_name(call), infer_places(call)[0].shape, window.kernel, te::CombinerKind::kMin, element)};
}

void reference_places(const OpCall& call, Refs inputs, RefTensor& places) {
  const Window window = pool_window(call);
  const int64_t area = num_elements(window.in), positions = num_elements(window.out);
  int64_t at = 0;
  for_each_index(window.out, [&](const std::vector<int64_t>& position) {
    const std::vector<int64_t> offsets = window_offsets(window, position);
    for (int64_t channel = 0; channel < places.type.shape[0] * places.type.shape[1]; ++channel) {
      const double y = inputs[1].floats[channel * positions + at];
      const auto is_largest = [&](int64_t offset) {
        const double x = offset < 0 ? 0 : inputs[0].floats[channel * area + offset];
        return offset >= 0 && (x == y || std::isnan(x));
      };
      places.ints[channel * positions + at] = std::ranges::find_if(offsets, is_largest) - offsets.begin();
    }
    ++at;
  });
}

}  // namespace

std::vector<OpDef> unpool_ops() {
  return {{"unpool", OpClass::kReduction, infer, te_unpool, filled<infer, reference>, {1, 2}},
          {"max_places", OpClass::kReduction, infer_places, te_places, filled<infer_places, reference_places>, {2, 2}}};
}

}  // namespace tw::ops
