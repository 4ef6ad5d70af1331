// Constant masks that are functions of their indices (causal ones, windows of neighbours) are computed where they are
// used: a select between scores and one number by a mask of bands becomes the operator band. No kernel reads the mask
// then, and which blocks of keys it leaves nothing of is known when code is generated (te/online.h).
#include <limits>

#include "transform/constants.h"
#include "transform/editor.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

// Where lower <= column - row <= upper.
struct Band {
  int64_t lower, upper;
};

// The band of matrix `mask` [.., rows, columns] in which its elements are `wanted`, and nowhere else; nothing where
// that is no band, or all or nothing of the matrix.
std::optional<Band> band_of(const graph::Value& mask, bool wanted) {
  const Shape& shape = mask.type.shape;
  if (!mask.is_constant() || !mask.type.type.is_bool() || shape.size() < 2) return std::nullopt;
  const int64_t rows = shape[shape.size() - 2], columns = shape.back();
  if (rows < 2 || columns < 2 || num_elements(shape) != rows * columns) return std::nullopt;
  const auto at = [&](int64_t i, int64_t j) {
    return (std::to_integer<int>((*mask.constant)[static_cast<size_t>(i * columns + j)]) != 0) == wanted;
  };
  // Each diagonal begins in the first column or the first row.
  const auto begins = [&](int64_t d) { return at(std::max<int64_t>(0, -d), std::max<int64_t>(0, d)); };
  int64_t lower = 1 - rows, upper = columns - 1;
  while (lower <= upper && !begins(lower)) ++lower;
  while (lower <= upper && !begins(upper)) --upper;
  if (lower > upper || (lower == 1 - rows && upper == columns - 1)) return std::nullopt;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      if (at(i, j) != (lower <= j - i && j - i <= upper)) return std::nullopt;
    }
  }
  return Band{lower, upper};
}

}  // namespace

graph::Graph compute_masks(const graph::Graph& graph, const TransformContext& context) {
  Editor editor(graph, context.ops);
  editor.for_each_old([&](const Node& node) {
    if (node.op != "where" || !editor.type(node.outputs[0]).type.is_float()) return;
    const graph::Value& mask = editor.value(node.inputs[0]);
    const Shape& shape = editor.shape(node.outputs[0]);
    for (const size_t kept : {1, 2}) {
      const std::optional<double> fill = splat_of(editor.value(node.inputs[3 - kept]));
      const bool whole = editor.shape(node.inputs[kept]) == shape && shape.size() >= 2 && mask.type.shape.size() >= 2 &&
                         std::equal(shape.end() - 2, shape.end(), mask.type.shape.end() - 2);
      const std::optional<Band> band = fill && whole ? band_of(mask, kept == 1) : std::nullopt;
      if (!band) continue;
      graph::Attrs attrs = {{"fill", *fill}};
      const int64_t rows = shape[shape.size() - 2], columns = shape.back();
      if (band->lower > 1 - rows) attrs["lower"] = band->lower;
      if (band->upper < columns - 1) attrs["upper"] = band->upper;
      editor.replace(node.outputs[0], editor.emit(node, "band", {node.inputs[kept]}, std::move(attrs)));
      return;
    }
  });
  return editor.finish();
}

}  // namespace tw::transform
