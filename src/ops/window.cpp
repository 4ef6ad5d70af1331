#include "ops/window.h"

#include "support/math.h"

namespace tw::ops {
namespace {

// Whether the sum is the result.
bool is_direct(const OpCall& call) { return !call.has(2) && math_type(call.inputs[0].type) == call.inputs[0].type; }

}  // namespace

Window window_of(const OpCall& call, const Shape& kernel, OutputSize size) {
  const Shape& x = call.inputs[0].shape;
  require(call, x.size() >= 3, "the input is {}, expected [N, C, spatial..]", to_string(call.inputs[0]));
  const size_t rank = x.size() - 2;
  require(call, kernel.size() == rank, "a window of {} axes on {} spatial axes", kernel.size(), rank);
  Window w{{x.begin() + 2, x.end()}, kernel, {}, {}, {}, {}, {}};
  w.strides = call.node.ints_attr_or("strides", std::vector<int64_t>(rank, 1));
  w.dilations = call.node.ints_attr_or("dilations", std::vector<int64_t>(rank, 1));
  const std::vector<int64_t> pads = call.node.ints_attr_or("pads", std::vector<int64_t>(2 * rank, 0));
  require(call, w.strides.size() == rank && w.dilations.size() == rank && pads.size() == 2 * rank,
          "{} strides, {} dilations and {} pads for {} spatial axes", w.strides.size(), w.dilations.size(), pads.size(),
          rank);
  w.pad_begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(rank));
  w.pad_end.assign(pads.begin() + static_cast<std::ptrdiff_t>(rank), pads.end());
  for (size_t d = 0; d < rank; ++d) {
    require(call, w.strides[d] > 0 && w.dilations[d] > 0 && kernel[d] > 0, "stride {}, dilation {}, kernel {}",
            w.strides[d], w.dilations[d], kernel[d]);
    require(call, w.pad_begin[d] >= 0 && w.pad_end[d] >= 0, "negative padding");
    const int64_t room = w.in[d] + w.pad_begin[d] + w.pad_end[d] - w.dilated_kernel(d);
    require(call, room >= 0, "a window of {} does not fit into {} with padding {} and {}", w.dilated_kernel(d), w.in[d],
            w.pad_begin[d], w.pad_end[d]);
    int64_t out = room / w.strides[d] + 1;
    if (size == OutputSize::kCeil) {
      out = ceil_div(room, w.strides[d]) + 1;
      if ((out - 1) * w.strides[d] >= w.in[d] + w.pad_begin[d]) --out;
    }
    w.out.push_back(out);
  }
  return w;
}

te::Tensor pad_around(const OpCall& call, te::Builder& builder, const te::Tensor& x, const std::vector<Halo>& halos,
                      const Expr& fill, std::vector<int64_t>* offset) {
  Shape shape(x.shape.begin(), x.shape.begin() + 2);
  offset->clear();
  bool padded = false;
  for (const auto& [low, high] : halos) {
    const int64_t extent = x.shape[shape.size()];
    offset->push_back(std::max<int64_t>(0, -low));
    shape.push_back(offset->back() + std::max(high + 1, extent));
    padded = padded || low < 0 || high >= extent;
  }
  if (!padded) return x;
  return builder.compute(tensor_name(call, "pad"), shape, [&](Exprs i) {
    Exprs conditions;
    for (size_t d = 0; d < halos.size(); ++d) {
      const int64_t before = (*offset)[d];
      i[2 + d] = i[2 + d] - Expr(before);
      conditions.push_back(inside(i[2 + d], x.shape[2 + d], -before, shape[2 + d] - 1 - before));
    }
    return select(all_of(conditions), x(i), fill);
  });
}

te::Tensor pad_for_window(const OpCall& call, te::Builder& builder, const te::Tensor& x, const Window& window,
                          const Expr& fill, std::vector<int64_t>* offset) {
  std::vector<Halo> halos;
  for (size_t d = 0; d < window.rank(); ++d) halos.push_back({window.lowest(d), window.highest(d)});
  return pad_around(call, builder, x, halos, fill, offset);
}

Expr window_index(const Window& window, size_t d, const Expr& o, const Expr& k, int64_t offset) {
  // Position o * stride - pad_begin + k * dilation of x; `offset` is pad_begin in a padded input, else 0 as is
  // pad_begin.
  return o * Expr(window.strides[d]) + k * Expr(window.dilations[d]) + Expr(offset - window.pad_begin[d]);
}

std::vector<int64_t> window_offsets(const Window& window, const std::vector<int64_t>& output_position) {
  std::vector<int64_t> result{0};
  for (size_t d = 0; d < window.rank(); ++d) {
    std::vector<int64_t> next;
    next.reserve(result.size() * window.kernel[d]);
    for (int64_t base : result) {
      for (int64_t k = 0; k < window.kernel[d]; ++k) {
        const int64_t p = output_position[d] * window.strides[d] - window.pad_begin[d] + k * window.dilations[d];
        next.push_back(base < 0 || p < 0 || p >= window.in[d] ? -1 : base * window.in[d] + p);
      }
    }
    result = std::move(next);
  }
  return result;
}

Expr Channels::input(const Expr& oc, const Expr& ic) const {
  if (group == 1) return ic;
  const Expr group_of = out_each() == 1 ? oc : floor_div(oc, Expr(out_each()));
  return depthwise() ? group_of : group_of * Expr(each()) + ic;
}

Channels channels_of(const OpCall& call) {
  const Shape &x = call.inputs[0].shape, &w = call.inputs[1].shape;
  require(call, x.size() >= 3 && x.size() <= 5 && w.size() >= x.size(),
          "input {} and weights {}, expected 3 to 5 dimensions each", to_string(call.inputs[0]),
          to_string(call.inputs[1]));
  const int64_t group = call.node.int_attr_or("group", 1);
  require(call, group >= 1 && x[1] % group == 0 && w[0] % group == 0 && w[1] * group == x[1],
          "{} input channels, weights {} and group {} do not fit", x[1], to_string(call.inputs[1]), group);
  return {x[0], group, x[1], w[0]};
}

std::string sum_name(const OpCall& call) { return tensor_name(call, is_direct(call) ? "" : "acc"); }

Tensors with_bias(const OpCall& call, te::Builder& builder, const te::Tensor& sum, const Tensors& inputs) {
  if (is_direct(call)) return {sum};
  return {builder.compute(tensor_name(call), sum.shape, [&](const Exprs& i) {
    return cast(inputs[0].type, call.has(2) ? sum(i) + read(inputs[2], {i[1]}) : sum(i));
  })};
}

void add_bias(const OpCall& call, Refs inputs, RefTensor& y, size_t bias) {
  if (!call.has(bias)) return;
  const int64_t channels = y.type.shape[1], positions = row_major_strides(y.type.shape)[1];
  for (int64_t i = 0; i < y.type.elements(); ++i) y.floats[i] += inputs[bias].floats[i / positions % channels];
}

}  // namespace tw::ops
