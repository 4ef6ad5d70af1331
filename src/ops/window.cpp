#include "ops/window.h"

#include "support/math.h"

namespace tw::ops {

bool Window::reads_padding() const {
  for (size_t d = 0; d < rank(); ++d) {
    if (lowest(d) < 0 || highest(d) >= in[d]) return true;
  }
  return false;
}

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
    const int64_t room = w.in[d] + w.pad_begin[d] + w.pad_end[d] - w.reach(d);
    require(call, room >= 0, "a window of {} does not fit into {} with padding {} and {}", w.reach(d), w.in[d],
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

te::Tensor pad_for_window(const OpCall& call, te::Builder& builder, const te::Tensor& x, const Window& window,
                          const Expr& fill, std::vector<int64_t>* offset) {
  offset->assign(window.rank(), 0);
  if (!window.reads_padding()) return x;
  Shape shape(x.shape.begin(), x.shape.begin() + 2);
  for (size_t d = 0; d < window.rank(); ++d) {
    (*offset)[d] = window.pad_begin[d];
    shape.push_back(window.pad_begin[d] + std::max(window.highest(d) + 1, window.in[d]));
  }
  return builder.compute(tensor_name(call, "pad"), shape, [&](Exprs i) {
    Exprs conditions;
    for (size_t d = 0; d < window.rank(); ++d) {
      i[2 + d] = i[2 + d] - Expr(window.pad_begin[d]);
      conditions.push_back(
          inside(i[2 + d], window.in[d], -window.pad_begin[d], shape[2 + d] - 1 - window.pad_begin[d]));
    }
    return select(all_of(conditions), x(i), fill);
  });
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

}  // namespace tw::ops
