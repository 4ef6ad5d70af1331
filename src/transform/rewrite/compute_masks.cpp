// Masks that are functions of their indices (causal ones, windows of neighbours; rewrite/masks.h) are computed where
// they are used: a select between scores and one number by a mask of bands becomes the operator band, and so does a sum
// with a mask of zeros and a number so low that nothing else counts. No kernel reads the mask then, and which blocks of
// keys it leaves nothing of is known when code is generated (te/online.h).
#include <optional>

#include "transform/editor.h"
#include "transform/passes.h"
#include "transform/rewrite/masks.h"

namespace tw::transform {
namespace {

constexpr double kLowest = -1e30;  // beside what is so low, sums of products of 16-bit floats are nothing

// What a node keeps of a value, and what it leaves in place of the rest.
struct Masked {
  ValueId x;
  Band band;
  double fill;
};

struct Matrix {
  int64_t rows, columns;
};

class MaskComputer {
 public:
  MaskComputer(const graph::Graph& graph, const TransformContext& context)
      : sums_(context.precision != Precision::kStrict), editor_(graph, context.ops), masks_(editor_) {}

  graph::Graph run() {
    editor_.for_each_old([&](const Node& node) {
      if (!editor_.type(node.outputs[0]).type.is_float()) return;
      // Strictly, what is infinite or no number stays that under a sum.
      const std::optional<Masked> masked = node.op == "where"          ? by_select(node)
                                           : node.op == "add" && sums_ ? by_sum(node)
                                                                       : std::nullopt;
      if (masked) compute(node, *masked);
    });
    return editor_.finish();
  }

 private:
  // The matrices of `x`, where it has the shape of the result.
  std::optional<Matrix> matrices(ValueId x, const Shape& shape) const {
    if (editor_.shape(x) != shape || shape.size() < 2) return std::nullopt;
    const Matrix matrix = {shape[shape.size() - 2], shape.back()};
    return matrix.rows > 1 && matrix.columns > 1 ? std::optional(matrix) : std::nullopt;
  }

  // Of a mask of two numbers, the one inside first: what `is_kept` of them says is inside.
  template <typename IsKept>
  std::optional<Mask> kept(ValueId id, const Matrix& matrix, const IsKept& is_kept) {
    std::optional<Mask> mask = masks_.find(id, matrix.rows, matrix.columns);
    if (!mask || mask->is_splat() || is_kept(mask->inside) == is_kept(mask->outside)) return std::nullopt;
    return is_kept(mask->inside) ? mask : turned(*mask, matrix.rows, matrix.columns);
  }

  // where(mask, x, fill) and where(mask, fill, x).
  std::optional<Masked> by_select(const Node& node) {
    for (const size_t k : {1, 2}) {
      const std::optional<Matrix> matrix = matrices(node.inputs[k], editor_.shape(node.outputs[0]));
      if (!matrix) continue;
      const std::optional<Mask> fill = masks_.find(node.inputs[3 - k], matrix->rows, matrix->columns);
      if (!fill || !fill->is_splat()) continue;
      const auto is_kept = [k](double condition) { return (condition != 0) == (k == 1); };
      const std::optional<Mask> mask = kept(node.inputs[0], *matrix, is_kept);
      if (mask) return Masked{node.inputs[k], mask->band, fill->inside};
    }
    return std::nullopt;
  }

  // x + mask, of zeros and one number so low that x is nothing beside it.
  std::optional<Masked> by_sum(const Node& node) {
    for (const size_t k : {0, 1}) {
      const std::optional<Matrix> matrix = matrices(node.inputs[1 - k], editor_.shape(node.outputs[0]));
      if (!matrix) continue;
      const std::optional<Mask> mask = kept(node.inputs[k], *matrix, [](double added) { return added == 0; });
      if (mask && mask->outside <= kLowest) return Masked{node.inputs[1 - k], mask->band, mask->outside};
    }
    return std::nullopt;
  }

  void compute(const Node& node, const Masked& masked) {
    const Shape& shape = editor_.shape(node.outputs[0]);
    graph::Attrs attrs = {{"fill", masked.fill}};
    if (masked.band.lower > 1 - shape[shape.size() - 2]) attrs["lower"] = masked.band.lower;
    if (masked.band.upper < shape.back() - 1) attrs["upper"] = masked.band.upper;
    editor_.replace(node.outputs[0], editor_.emit(node, "band", {masked.x}, std::move(attrs)));
  }

  bool sums_;
  Editor editor_;
  Masks masks_;
};

}  // namespace

// CPUs have not less to do for it: GPT-2 at 512 tokens is as fast with one thread, and no faster with two.
graph::Graph compute_masks(const graph::Graph& graph, const TransformContext& context) {
  return context.target.kind == DeviceKind::kCuda ? MaskComputer(graph, context).run() : graph;
}

}  // namespace tw::transform
