// Constant masks that are functions of their indices (causal ones, windows of neighbours) are computed where they are
// used: a select between scores and one number by a mask of bands becomes the operator band, and so does a sum with a
// mask of zeros and a number so low that nothing else counts. No kernel reads the mask then, and which blocks of keys
// it leaves nothing of is known when code is generated (te/online.h).
#include <algorithm>
#include <functional>
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

constexpr double kLowest = -1e30;  // beside what is so low, sums of products of 16-bit floats are nothing

// The band of a matrix of `rows` and `columns` in which elements are kept, and nowhere else; nothing where that is no
// band, or all or nothing of the matrix.
std::optional<Band> band_of(int64_t rows, int64_t columns, const std::function<bool(size_t element)>& is_kept) {
  const auto at = [&](int64_t i, int64_t j) { return is_kept(static_cast<size_t>(i * columns + j)); };
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

// What a node keeps of a value, and what it leaves in place of the rest.
struct Masked {
  ValueId x;
  Band band;
  double fill;
};

// Whether `mask` is one constant matrix for all those of `x`, which has the shape of the result.
bool is_matrix_of(const Editor& editor, ValueId mask, ValueId x, const Shape& shape) {
  const graph::Value& value = editor.value(mask);
  const Shape& m = value.type.shape;
  return value.is_constant() && editor.shape(x) == shape && shape.size() >= 2 && m.size() >= 2 &&
         std::equal(shape.end() - 2, shape.end(), m.end() - 2) && shape[shape.size() - 2] > 1 && shape.back() > 1 &&
         num_elements(m) == shape[shape.size() - 2] * shape.back();
}

// where(mask, x, fill) and where(mask, fill, x).
std::optional<Masked> masked_by_select(const Editor& editor, const Node& node) {
  const Shape& shape = editor.shape(node.outputs[0]);
  for (const size_t kept : {1, 2}) {
    const std::optional<double> fill = splat_of(editor.value(node.inputs[3 - kept]));
    if (!fill || !is_matrix_of(editor, node.inputs[0], node.inputs[kept], shape)) continue;
    const std::span<const std::byte> mask = *editor.value(node.inputs[0]).constant;
    const std::optional<Band> band = band_of(shape[shape.size() - 2], shape.back(), [&](size_t e) {
      return (std::to_integer<int>(mask[e]) != 0) == (kept == 1);
    });
    if (band) return Masked{node.inputs[kept], *band, *fill};
  }
  return std::nullopt;
}

// A mask that is added: the constant that tells where it is 0, and the one number that it is elsewhere.
struct AddedMask {
  ValueId kept;
  double low;
  std::function<bool(size_t element)> is_zero;
};

std::optional<AddedMask> added_constant(const Editor& editor, ValueId mask) {
  constexpr int64_t kMaxElements = int64_t{1} << 24;  // looked at as f64
  const graph::Value& value = editor.value(mask);
  if (value.type.elements() > kMaxElements) return std::nullopt;
  std::vector<double> elements = elements_of(value).floats;
  const double low = std::ranges::min(elements);
  if (!std::ranges::all_of(elements, [&](double e) { return e == 0 || e == low; })) return std::nullopt;
  return AddedMask{mask, low, [all = std::move(elements)](size_t e) { return all[e] == 0; }};
}

// where(condition, 0, low) and where(condition, low, 0).
std::optional<AddedMask> added_select(const Editor& editor, ValueId mask) {
  const Node* select = editor.producer(mask, "where");
  if (select == nullptr || !editor.value(select->inputs[0]).is_constant()) return std::nullopt;
  for (const size_t kept : {1, 2}) {
    const std::optional<double> zero = splat_of(editor.value(select->inputs[kept]));
    const std::optional<double> low = splat_of(editor.value(select->inputs[3 - kept]));
    if (zero != 0.0 || !low) continue;
    const graph::Bytes condition = editor.value(select->inputs[0]).constant;
    return AddedMask{select->inputs[0], *low, [condition, kept](size_t e) {
                       return (std::to_integer<int>((*condition)[e]) != 0) == (kept == 1);
                     }};
  }
  return std::nullopt;
}

// x + mask, of zeros and one number so low that x is nothing beside it.
std::optional<Masked> masked_by_sum(const Editor& editor, const Node& node) {
  const Shape& shape = editor.shape(node.outputs[0]);
  for (const size_t k : {0, 1}) {
    const ValueId added = node.inputs[k], x = node.inputs[1 - k];
    const std::optional<AddedMask> mask =
        is_matrix_of(editor, added, x, shape) ? added_constant(editor, added) : added_select(editor, added);
    if (!mask || !(mask->low <= kLowest) || !is_matrix_of(editor, mask->kept, x, shape)) continue;
    const std::optional<Band> band = band_of(shape[shape.size() - 2], shape.back(), mask->is_zero);
    if (band) return Masked{x, *band, mask->low};
  }
  return std::nullopt;
}

}  // namespace

// CPUs have not less to do for it: GPT-2 at 512 tokens is as fast with one thread, and no faster with two.
graph::Graph compute_masks(const graph::Graph& graph, const TransformContext& context) {
  if (context.target.kind != DeviceKind::kCuda) return graph;
  Editor editor(graph, context.ops);
  editor.for_each_old([&](const Node& node) {
    if (!editor.type(node.outputs[0]).type.is_float()) return;
    // Strictly, what is infinite or no number stays that under a sum.
    const bool sums = node.op == "add" && context.precision != Precision::kStrict;
    const std::optional<Masked> masked = node.op == "where" ? masked_by_select(editor, node)
                                         : sums             ? masked_by_sum(editor, node)
                                                            : std::nullopt;
    if (!masked) return;
    const Shape& shape = editor.shape(node.outputs[0]);
    graph::Attrs attrs = {{"fill", masked->fill}};
    if (masked->band.lower > 1 - shape[shape.size() - 2]) attrs["lower"] = masked->band.lower;
    if (masked->band.upper < shape.back() - 1) attrs["upper"] = masked->band.upper;
    editor.replace(node.outputs[0], editor.emit(node, "band", {masked->x}, std::move(attrs)));
  });
  return editor.finish();
}

}  // namespace tw::transform
