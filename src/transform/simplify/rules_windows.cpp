// Rules of sliding windows.
#include <algorithm>

#include "ops/window.h"
#include "transform/rules.h"

namespace tw::transform {
namespace {

// A range of a kernel axis, and the padding with which it reads what it read before.
struct KernelRange {
  int64_t first = 0;
  int64_t count = 0;
  int64_t pad_begin = 0;
  int64_t pad_end = 0;
};

// Whether any output position reads an element of the input through kernel position k.
bool is_alive(const ops::Window& w, size_t d, int64_t k) {
  for (int64_t o = 0; o < w.out[d]; ++o) {
    const int64_t at = o * w.strides[d] - w.pad_begin[d] + k * w.dilations[d];
    if (at >= 0 && at < w.in[d]) return true;
  }
  return false;
}

// The kernel axis without the positions at both ends that read padding only; all of it where padding cannot follow.
KernelRange live_range(const ops::Window& w, size_t d) {
  const KernelRange whole{0, w.kernel[d], w.pad_begin[d], w.pad_end[d]};
  int64_t first = 0;
  int64_t last = w.kernel[d] - 1;
  while (first < last && !is_alive(w, d, first)) ++first;
  while (first < last && !is_alive(w, d, last)) --last;
  KernelRange range{first, last - first + 1, w.pad_begin[d] - first * w.dilations[d], 0};
  if (range.pad_begin < 0) return whole;
  const int64_t dilated = (range.count - 1) * w.dilations[d] + 1;
  const int64_t room = (w.out[d] - 1) * w.strides[d];  // of the last window's begin
  range.pad_end = std::max<int64_t>(0, room + dilated - w.in[d] - range.pad_begin);
  const bool same_count = w.in[d] + range.pad_begin + range.pad_end - dilated < room + w.strides[d];
  return same_count ? range : whole;
}

// Strongly dilated convolutions of small images: most of the kernel only ever meets padding.
bool drop_dead_filter_positions(Editor& editor, const Node& node) {
  const Shape weights = editor.type(node.inputs[1]).shape;
  const ops::Window window =
      ops::window_of(graph::make_call(editor.graph(), node), Shape(weights.begin() + 2, weights.end()));
  const size_t rank = window.rank();
  Ints starts(weights.size(), 0), extents = weights, pads(2 * rank);
  for (size_t d = 0; d < rank; ++d) {
    const KernelRange range = live_range(window, d);
    starts[2 + d] = range.first;
    extents[2 + d] = range.count;
    pads[d] = range.pad_begin;
    pads[rank + d] = range.pad_end;
  }
  if (extents == weights) return false;
  Node conv = node;
  conv.inputs[1] = editor.emit_slice(node.name + ".taps", node.inputs[1], starts, extents);
  conv.attrs["pads"] = pads;
  return editor.replace(node.outputs[0], editor.add(std::move(conv)));
}

constexpr Rule kRules[] = {
    {"convolution without filter positions in the padding", "conv", drop_dead_filter_positions},
};

}  // namespace

std::span<const Rule> window_rules() { return kRules; }

}  // namespace tw::transform
