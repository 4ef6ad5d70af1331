// Strided windows over a few channels: a first convolution, of stride 2 over 3 channels, reads so few neighbours at
// once that the threads of a tile spend their time on addresses. The pixels that a stride steps over become channels of
// one (space to depth), and the stride 1:
//   x'[n, (b * s + d) * C + c, h, v] = x[n, c, s * h + b, s * v + d]
//   w'[k, (b * s + d) * C + c, r, u] = w[k, c, s * (r + first) + b + pad, ..the same of u and d], 0 outside of w
// A window of as many pixels as its stride, a vision transformer's patch, becomes a product of matrices.
#include <array>
#include <cstring>
#include <optional>

#include "support/math.h"
#include "transform/editor.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

// Windows along one spatial dim, before and after.
struct Fold {
  int64_t stride = 1;
  int64_t window = 1;  // before
  int64_t first = 0;   // of a window's pixels, less than 0: from where it begins in x'
  int64_t pad = 0;     // of x before its first pixel
  int64_t extent = 1;  // of a window of x'
  int64_t behind = 0;  // padding of x' behind its last pixel

  // The pixel of a window of x' that holds pixel `q` of one of x, and its place among those that are one.
  int64_t pixel(int64_t q) const { return (q - pad - stride * first) / stride; }
  int64_t place(int64_t q) const { return (q - pad - stride * first) % stride; }
};
using Folds = std::array<Fold, 2>;

class StrideFolder {
 public:
  StrideFolder(const graph::Graph& graph, const TransformContext& context)
      : editor_(graph, context.ops), target_(context.target) {}

  graph::Graph run() {
    editor_.for_each_old([&](const Node& node) {
      if (const std::optional<Folds> found = folds_of(node)) fold(node, *found);
    });
    return editor_.finish();
  }

 private:
  std::optional<Folds> folds_of(const Node& node) const {
    if (node.op != "conv" || node.int_attr_or("group", 1) != 1 || editor_.shape(node.inputs[0]).size() != 4)
      return std::nullopt;
    const ValueId x = node.inputs[0], w = node.inputs[1];
    if (!editor_.type(x).type.is_half() || !editor_.value(w).is_constant()) return std::nullopt;
    if (num_elements(editor_.shape(w)) == 0 || num_elements(editor_.shape(node.outputs[0])) == 0) return std::nullopt;
    if (editor_.shape(x)[1] >= target_.vector_bytes / editor_.type(x).type.bytes()) return std::nullopt;
    const Ints ones(2, 1), strides = node.ints_attr_or("strides", ones);
    if (strides[0] != strides[1] || strides[0] < 2 || node.ints_attr_or("dilations", ones) != ones) return std::nullopt;
    Folds folds;
    for (size_t d = 0; d < 2; ++d) {
      const int64_t size = editor_.shape(x)[2 + d], out = editor_.shape(node.outputs[0])[2 + d];
      Fold& f = folds[d];
      f.stride = strides[d];
      f.window = editor_.shape(w)[2 + d];
      f.pad = node.ints_attr_or("pads", Ints(4, 0))[d];
      f.first = floor_div(-f.pad, f.stride);
      f.extent = f.pixel(f.window - 1) + 1;
      f.behind = out - 1 + f.extent + f.first - size / f.stride;
      // Pixels that no window reads would be brought too.
      if (size % f.stride != 0 || f.window < f.stride || f.behind < 0) return std::nullopt;
    }
    return folds;
  }

  void fold(const Node& node, const Folds& folds) {
    const auto& [y, x] = folds;
    Node wide = node;
    wide.attrs["strides"] = Ints{1, 1};
    wide.attrs["pads"] = Ints{-y.first, -x.first, y.behind, x.behind};
    wide.inputs[0] = editor_.emit(editor_.value(node.inputs[0]).name + ".folded", "space_to_depth", {node.inputs[0]},
                                  {{"blocksize", x.stride}});
    wide.inputs[1] = folded_weights(node.inputs[1], folds);
    editor_.replace(node.outputs[0], editor_.add(std::move(wide)));
  }

  ValueId folded_weights(ValueId id, const Folds& folds) {
    const auto& [y, x] = folds;
    const graph::Value w = editor_.value(id);
    TensorType type = w.type;
    const int64_t filters = type.shape[0], channels = type.shape[1];
    type.shape = {filters, channels * x.stride * x.stride, y.extent, x.extent};
    const auto size = static_cast<size_t>(type.type.bytes());
    std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
    const std::byte* from = w.constant->data();
    for (int64_t line = 0; line < filters * channels; ++line) {
      for (int64_t pixel = 0; pixel < y.window * x.window; ++pixel, from += size) {
        const int64_t r = pixel / x.window, q = pixel % x.window;
        const int64_t block = line / channels * x.stride * x.stride + y.place(r) * x.stride + x.place(q);
        const int64_t to = ((block * channels + line % channels) * y.extent + y.pixel(r)) * x.extent + x.pixel(q);
        std::memcpy(bytes.data() + static_cast<size_t>(to) * size, from, size);
      }
    }
    return editor_.add_constant(w.name, type, std::move(bytes));
  }

  Editor editor_;
  const TargetInfo& target_;
};

}  // namespace

graph::Graph fold_strides(const graph::Graph& graph, const TransformContext& context) {
  if (context.target.kind == DeviceKind::kCpu) return graph;  // there vectors run along the filters
  return StrideFolder(graph, context).run();
}

}  // namespace tw::transform
