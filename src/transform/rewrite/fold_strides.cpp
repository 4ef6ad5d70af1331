// Strided windows over a few channels: a first convolution, of stride 4 over 3 channels, reads so few neighbours at
// once that the threads of a tile spend their time on addresses. Along axes whose stride s divides the window, s pixels
// become channels of one pixel (space to depth, operator unfold): window / s pixels of stride 1 are left, without a
// product that the model does not have (ADR 0028). A window of as many pixels as its stride, a vision transformer's
// patch, becomes a product of matrices. Other axes keep their windows and strides.
// With t pixels together along each axis, q = t * r + b:
//   x'[n, b * C + c, o..] = x[n, c, o * t + b - pad]
//   w'[k, b * C + c, r..] = w[k, c, q..]
#include <cstring>

#include "ops/common.h"
#include "transform/editor.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

class StrideFolder {
 public:
  StrideFolder(const graph::Graph& graph, const TransformContext& context)
      : editor_(graph, context.ops), target_(context.target) {}

  graph::Graph run() {
    editor_.for_each_old([&](const Node& node) {
      if (const std::optional<Ints> together = pixels_together(node)) fold(node, *together);
    });
    return editor_.finish();
  }

 private:
  // Of a window, along each spatial axis; nothing where the convolution stays as it is.
  std::optional<Ints> pixels_together(const Node& node) const {
    if (node.op != "conv" || node.int_attr_or("group", 1) != 1) return std::nullopt;
    const ValueId x = node.inputs[0], w = node.inputs[1];
    if (!editor_.type(x).type.is_half() || !editor_.value(w).is_constant()) return std::nullopt;
    if (num_elements(editor_.shape(w)) == 0 || num_elements(editor_.shape(node.outputs[0])) == 0) return std::nullopt;
    if (editor_.shape(x)[1] >= target_.vector_bytes / editor_.type(x).type.bytes()) return std::nullopt;
    const size_t rank = editor_.shape(x).size() - 2;
    const Ints ones(rank, 1);
    const Ints strides = node.ints_attr_or("strides", ones), dilations = node.ints_attr_or("dilations", ones);
    Ints together = ones;
    for (size_t d = 0; d < rank; ++d) {
      if (dilations[d] == 1 && editor_.shape(w)[2 + d] % strides[d] == 0) together[d] = strides[d];
    }
    return together == ones ? std::nullopt : std::optional(together);
  }

  void fold(const Node& node, const Ints& together) {
    const size_t rank = together.size();
    Node wide = node;
    wide.attrs["strides"] = node.ints_attr_or("strides", Ints(rank, 1));
    wide.attrs["pads"] = node.ints_attr_or("pads", Ints(2 * rank, 0));
    graph::Attrs unfolded{{"kernel_shape", together}, {"strides", Ints(rank, 1)}, {"pads", Ints(2 * rank, 0)}};
    const auto move = [&](const char* name, size_t at, int64_t left) {
      auto& from = std::get<Ints>(wide.attrs.at(name));
      std::get<Ints>(unfolded.at(name))[at] = std::exchange(from[at], left);
    };
    for (size_t d = 0; d < rank; ++d) {
      if (together[d] == 1) continue;
      move("strides", d, 1);
      move("pads", d, 0);
      move("pads", rank + d, 0);
    }
    wide.inputs[0] = editor_.emit(editor_.value(node.inputs[0]).name + ".folded", "unfold", {node.inputs[0]}, unfolded);
    wide.inputs[1] = folded_weights(node.inputs[1], together);
    editor_.replace(node.outputs[0], editor_.add(std::move(wide)));
  }

  ValueId folded_weights(ValueId id, const Ints& together) {
    const graph::Value w = editor_.value(id);
    TensorType type = w.type;
    type.shape[1] *= num_elements(together);
    for (size_t d = 0; d < together.size(); ++d) type.shape[2 + d] /= together[d];
    const Shape strides = row_major_strides(type.shape);
    const auto size = static_cast<size_t>(type.type.bytes());
    std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
    const std::byte* from = w.constant->data();
    ops::for_each_index(w.type.shape, [&](const Ints& at) {
      Ints to = at;
      int64_t pixel = 0;
      for (size_t d = 0; d < together.size(); ++d) {
        pixel = pixel * together[d] + at[2 + d] % together[d];
        to[2 + d] = at[2 + d] / together[d];
      }
      to[1] += pixel * w.type.shape[1];
      std::memcpy(bytes.data() + static_cast<size_t>(ops::offset_of(to, strides)) * size, from, size);
      from += size;
    });
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
