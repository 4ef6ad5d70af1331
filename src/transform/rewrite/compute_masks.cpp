// Masks that are functions of their indices (causal ones, windows of neighbours; rewrite/masks.h) are computed where
// they are used: a select between scores and one number by a mask of bands becomes the operator band, and so does a sum
// with a mask of zeros and a number so low that nothing else counts. No kernel reads the mask then, and which blocks of
// keys it leaves nothing of is known when code is generated (te/online.h).
#include "transform/passes.h"
#include "transform/rewrite/masks.h"

namespace tw::transform {
namespace {

class MaskComputer {
 public:
  MaskComputer(const graph::Graph& graph, const TransformContext& context)
      : precision_(context.precision), editor_(graph, context.ops), masks_(editor_) {}

  graph::Graph run() {
    editor_.for_each_old([&](const Node& node) {
      if (!editor_.type(node.outputs[0]).type.is_float()) return;
      if (const std::optional<Masked> masked = masks_.masked(node, precision_)) compute(node, *masked);
    });
    return editor_.finish();
  }

 private:
  void compute(const Node& node, const Masked& masked) {
    const Shape& shape = editor_.shape(node.outputs[0]);
    graph::Attrs attrs = {{"fill", masked.fill}};
    if (masked.band.lower > 1 - shape[shape.size() - 2]) attrs["lower"] = masked.band.lower;
    if (masked.band.upper < shape.back() - 1) attrs["upper"] = masked.band.upper;
    editor_.replace(node.outputs[0], editor_.emit(node, "band", {masked.x}, std::move(attrs)));
  }

  Precision precision_;
  Editor editor_;
  Masks masks_;
};

}  // namespace

// CPUs have not less to do for it: GPT-2 at 512 tokens is as fast with one thread, and no faster with two.
graph::Graph compute_masks(const graph::Graph& graph, const TransformContext& context) {
  return context.target.kind == DeviceKind::kCuda ? MaskComputer(graph, context).run() : graph;
}

}  // namespace tw::transform
