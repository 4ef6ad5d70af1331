// How each layout primitive moves an index, in both directions.
#include "support/error.h"
#include "support/join.h"
#include "te/rewrite.h"

namespace tw::te {
namespace {

std::vector<Expr> split_index(const LayoutPrimitive& p, std::vector<Expr> indices) {
  const Expr e = indices[p.dim];
  std::vector<Expr> parts(p.args.size());
  int64_t later = 1;
  for (size_t j = p.args.size(); j-- > 0;) {
    const Expr quotient = floor_div(e, later);
    // The outermost part needs no mod: e is inside its extent.
    parts[j] = j == 0 ? quotient : floor_mod(quotient, p.args[j]);
    later *= p.args[j];
  }
  indices.erase(indices.begin() + p.dim);
  indices.insert(indices.begin() + p.dim, parts.begin(), parts.end());
  return indices;
}

std::vector<Expr> fuse_index(const LayoutPrimitive& p, const Shape& shape, std::vector<Expr> indices) {
  const auto count = static_cast<int>(p.args[0]);
  Expr fused = indices[p.dim];
  for (int d = p.dim + 1; d < p.dim + count; ++d) fused = fused * shape[d] + indices[d];
  indices.erase(indices.begin() + p.dim, indices.begin() + p.dim + count);
  indices.insert(indices.begin() + p.dim, fused);
  return indices;
}

// Indices after primitive p for indices into a tensor of shape `shape`.
std::vector<Expr> move_index(const LayoutPrimitive& p, const Shape& shape, std::vector<Expr> indices) {
  switch (p.op) {
    case LayoutOp::kSplit:
      return split_index(p, std::move(indices));
    case LayoutOp::kFuse:
      return fuse_index(p, shape, std::move(indices));
    case LayoutOp::kReorder:
      return mapped(p.args, [&](int64_t d) { return indices[d]; });
    case LayoutOp::kPad:
      indices[p.dim] = indices[p.dim] + p.args[0];
      return indices;
    case LayoutOp::kUnpad:
      indices[p.dim] = indices[p.dim] - p.args[0];
      return indices;
  }
  throw InternalError("an unknown layout primitive");
}

// Shapes before each primitive, and last the storage shape.
std::vector<Shape> shapes_along(const Layout& layout, const Shape& logical) {
  std::vector<Shape> shapes = {logical};
  for (const LayoutPrimitive& p : layout.primitives()) shapes.push_back(apply_primitive(p, shapes.back()));
  return shapes;
}

struct LogicalPoint {
  std::vector<Expr> indices;
  Expr inside;
};

LogicalPoint walk_back(const Layout& layout, const Shape& logical, std::vector<Expr> indices) {
  const std::vector<Shape> shapes = shapes_along(layout, logical);
  TW_CHECK(indices.size() == shapes.back().size(), "{} storage indices for shape {}", indices.size(),
           to_string(shapes.back()));
  LogicalPoint point{std::move(indices), int_imm(1, DataType::boolean())};
  for (size_t k = layout.primitives().size(); k-- > 0;) {
    const LayoutPrimitive& p = layout.primitives()[k];
    const LayoutPrimitive undo = Layout({p}).inverse(shapes[k]).primitives().front();
    point.indices = move_index(undo, shapes[k + 1], std::move(point.indices));
    if (p.op != LayoutOp::kPad) continue;
    const Expr& e = point.indices[p.dim];
    if (p.args[0] > 0) point.inside = point.inside && e >= 0;
    if (p.args[1] > 0) point.inside = point.inside && e < Expr(shapes[k][p.dim]);
  }
  return point;
}

}  // namespace

std::vector<Expr> storage_indices(const Layout& layout, const Shape& logical, std::vector<Expr> indices) {
  TW_CHECK(indices.size() == logical.size(), "{} indices for shape {}", indices.size(), to_string(logical));
  Shape shape = logical;
  for (const LayoutPrimitive& p : layout.primitives()) {
    indices = move_index(p, shape, std::move(indices));
    shape = apply_primitive(p, shape);
  }
  return indices;
}

std::vector<Expr> logical_indices(const Layout& layout, const Shape& logical, std::vector<Expr> indices) {
  return walk_back(layout, logical, std::move(indices)).indices;
}

Expr inside_padding_bounds(const Layout& layout, const Shape& logical, std::vector<Expr> indices) {
  return walk_back(layout, logical, std::move(indices)).inside;
}

}  // namespace tw::te
