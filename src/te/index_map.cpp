// How each layout primitive moves an index, in both directions.
#include <algorithm>

#include "expr/affine.h"
#include "support/error.h"
#include "support/join.h"
#include "te/rewrite.h"

namespace tw::te {
namespace {

using Exprs = std::vector<Expr>;

Exprs split_index(const std::vector<int64_t>& factors, const Expr& e) {
  Exprs parts(factors.size());
  int64_t later = 1;
  for (size_t j = factors.size(); j-- > 0;) {
    const Expr quotient = floor_div(e, later);
    // The outermost part needs no mod: e is inside its extent.
    parts[j] = j == 0 ? quotient : floor_mod(quotient, factors[j]);
    later *= factors[j];
  }
  return parts;
}

Expr fuse_index(const LayoutPrimitive& p, const Shape& shape, const Exprs& indices) {
  Expr fused = indices[p.dim];
  for (int64_t d = p.dim + 1; d < p.dim + p.args[0]; ++d) fused = fused * shape[d] + indices[d];
  return fused;
}

// Tile and place of the element `e` of `extent` under an unfold.
Exprs point_index(const LayoutPrimitive& p, int64_t extent, const Expr& e) {
  const int64_t tile = p.args[0], step = p.args[1], last = apply_primitive({p.op, 0, p.args}, {extent})[0] - 1;
  if (tile == step) return {floor_div(e, step), floor_mod(e, step)};
  const Expr number = last == 0 ? Expr(0) : min(floor_div(e, step), Expr(last));
  return {number, e - number * step};
}

// Those of the index V * i + r of windows; which of its terms is V * i is told by the tiles.
Exprs window_index(const LayoutPrimitive& p, int64_t extent, const Expr& e, const Analyzer& ranges) {
  const int64_t tile = p.args[0], step = p.args[1];
  const Interval range = ranges.bounds(e);
  const bool inside = range.lo >= 0 && range.hi < extent;
  if (inside && range.hi < tile) return {Expr(0), e};
  const Sum sum = as_sum(e);
  int64_t every = 0, size = range.hi + 1;  // of the smallest windows
  for (const Term& i : sum.terms) {
    const Expr r = to_expr(sum_of(sum, {{i}, 0}, -1));
    const Interval turns = ranges.bounds(i.atom), within = ranges.bounds(r);
    if (i.coef <= 0 || turns.lo < 0 || within.lo < 0) continue;
    const int64_t count = within.hi < tile ? (tile - within.hi - 1) / i.coef + 1 : 0;
    if (inside && i.coef * count == step) return {floor_div(i.atom, count), floor_mod(i.atom, count) * i.coef + r};
    if (within.hi < size) every = i.coef, size = within.hi + 1;
  }
  const int64_t n = tile > size && every > 0 ? (tile - size) / every + 1 : 1;
  throw InternalError(
      "{} of {} elements: windows of {} every {}, from {} to {}: {} in a tile need {} every {}, all inside",
      to_string(p), extent, size, every, range.lo, range.hi, n, std::max(every * (n - 1) + size, every * n), every * n);
}

Exprs unfold_index(const LayoutPrimitive& p, int64_t extent, const Expr& e, const Analyzer* ranges) {
  const Expr simple = ranges == nullptr ? e : ranges->simplify(e);
  const Sum sum = as_sum(simple);
  const bool is_point = sum.is_constant() || (sum.terms.size() == 1 && sum.terms[0].coef == 1);
  return ranges == nullptr || is_point ? point_index(p, extent, simple) : window_index(p, extent, simple, *ranges);
}

// Indices after primitive p for indices into a tensor of shape `shape`. Without `ranges` they are those of points.
Exprs move_index(const LayoutPrimitive& p, const Shape& shape, Exprs indices, const Analyzer* ranges) {
  if (p.op == LayoutOp::kReorder) return mapped(p.args, [&](int64_t d) { return indices[d]; });
  const auto become = [&](int64_t taken, const Exprs& fresh) { return spliced(indices, p.dim, taken, fresh); };
  const Expr e = indices[p.dim];
  switch (p.op) {
    case LayoutOp::kSplit:
      return become(1, split_index(p.args, e));
    case LayoutOp::kFuse:
      return become(p.args[0], {fuse_index(p, shape, indices)});
    case LayoutOp::kPad:
      return become(1, {e + p.args[0]});
    case LayoutOp::kUnpad:
      return become(1, {e - p.args[0]});
    case LayoutOp::kUnfold:
      return become(1, unfold_index(p, shape[p.dim], e, ranges));
    case LayoutOp::kFold:
      return become(2, {e * p.args[1] + indices[p.dim + 1]});
    default:  // what is attached lies behind
      return indices;
  }
}

// Shapes before each primitive, and last the storage shape.
std::vector<Shape> shapes_along(const Layout& layout, const Shape& logical) {
  std::vector<Shape> shapes = {logical};
  for (const LayoutPrimitive& p : layout.primitives()) shapes.push_back(apply_primitive(p, shapes.back()));
  return shapes;
}

}  // namespace

std::vector<Expr> storage_indices(const Layout& layout, const Shape& logical, std::vector<Expr> indices,
                                  const Analyzer* ranges) {
  TW_CHECK(indices.size() == logical.size(), "{} indices for shape {}", indices.size(), to_string(logical));
  Shape shape = logical;
  for (const LayoutPrimitive& p : layout.primitives()) {
    indices = move_index(p, shape, std::move(indices), ranges);
    shape = apply_primitive(p, shape);
  }
  return indices;
}

LogicalPoint logical_point(const Layout& layout, const Shape& logical, Exprs indices) {
  const std::vector<Shape> shapes = shapes_along(layout, logical);
  TW_CHECK(indices.size() == shapes.back().size(), "{} storage indices for shape {}", indices.size(),
           to_string(shapes.back()));
  LogicalPoint point{std::move(indices), int_imm(1, DataType::boolean())};
  for (size_t k = layout.primitives().size(); k-- > 0;) {
    const LayoutPrimitive& p = layout.primitives()[k];
    const LayoutPrimitive undo = Layout({p}).inverse(shapes[k]).primitives().front();
    point.indices = move_index(undo, shapes[k + 1], std::move(point.indices), nullptr);
    if (p.op != LayoutOp::kPad && p.op != LayoutOp::kUnfold) continue;
    const Expr& e = point.indices[p.dim];
    if (p.op == LayoutOp::kPad && p.args[0] > 0) point.inside = point.inside && e >= 0;
    if (p.op == LayoutOp::kUnfold || p.args[1] > 0) point.inside = point.inside && e < Expr(shapes[k][p.dim]);
  }
  return point;
}

}  // namespace tw::te
