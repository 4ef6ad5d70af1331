#include "codegen/cuda/bulk.h"

#include <numeric>

#include "codegen/cuda/threads.h"
#include "expr/affine.h"
#include "support/error.h"

namespace tw::codegen {
namespace {

using loop::Stmt;

// How far `e` moves when `name` goes from 0 to 1.
Expr step_of(const Expr& e, const std::string& name, const Analyzer& ranges) {
  return ranges.simplify(substitute(e, {{name, int_imm(1)}}) - substitute(e, {{name, int_imm(0)}}));
}

// The index that moves with the loop, by one element a turn.
size_t dim_of(const Stmt& loop, const std::vector<Expr>& indices, const Analyzer& ranges) {
  size_t found = indices.size();
  for (size_t d = 0; d < indices.size(); ++d) {
    const Expr step = step_of(indices[d], loop->var, ranges);
    if (step.is_int(0)) continue;
    TW_CHECK(step.is_int(1) && found == indices.size(), "bulk loop {} moves other than along one dim", loop->var);
    found = d;
  }
  TW_CHECK(found < indices.size(), "bulk loop {} does not move", loop->var);
  return found;
}

// Whether the loop moves along one dim, by one element a turn.
bool moves_along_dim(const Stmt& loop, const std::vector<Expr>& indices) {
  const auto moves = [&](const Expr& index) { return uses_var(index, loop->var); };
  const auto found = std::ranges::find_if(indices, moves);
  return std::ranges::count_if(indices, moves) == 1 && coefficient_of(*found, loop->var) == 1;
}

std::vector<Expr> at_origin(const std::vector<Expr>& indices, const VarMap& origin, const Analyzer& ranges) {
  return mapped(indices, [&](const Expr& index) { return ranges.simplify(substitute(index, origin)); });
}

// A box for which a pixel's number counts as one more index of its tensor.
BulkCopy window_copy(const std::vector<Stmt>& loops, const loop::Buffer& tensor, const Expr& condition,
                     const Analyzer& ranges) {
  const Stmt &lines = loops[0], &channels = loops[1], &store = channels->body[0];
  const Expr& load = store->value.op() == Op::kSelect ? store->value.arg(1) : store->value;
  std::vector<Expr> indices = load->args;
  Shape shape = tensor.shape;
  // A loop over filter positions may look like one over tiles; then the conditions say more than that pixels and
  // indices exist.
  const auto find = [&]() -> std::optional<Pixels> {
    for (Pixels& way : find_pixels(indices, lines, condition, ranges)) {
      std::vector<Expr> all = indices;
      Shape extents = shape;
      all.push_back(way.first + var(lines->var));
      const Shape& windows = way.windows.extents;
      extents.push_back(std::accumulate(windows.begin(), windows.end(), shape[0], std::multiplies<>()));
      if (all_inside(condition, all, extents, ranges)) return std::move(way);
    }
    return std::nullopt;
  };
  std::optional<Pixels> pixels = find();
  if (!pixels) {  // one image, whose dim nobody needs
    indices.insert(indices.begin(), int_imm(0));
    shape.insert(shape.begin(), 1);
    pixels = find();
  }
  const size_t last = indices.size() - 1;
  TW_CHECK(pixels && dim_of(channels, indices, ranges) == last,
           "bulk loop {} moves other than along pixels, or where they are not", lines->var);
  BulkCopy copy{tensor.name, shape, Shape(shape.size(), 1), pixels->start(), {}, store->buffer, {}};
  const VarMap origin = {{lines->var, int_imm(0)}, {channels->var, int_imm(0)}};
  copy.start.push_back(at_origin({indices[last]}, origin, ranges)[0]);
  copy.pixels = std::move(pixels);
  copy.box.front() = lines->extent;
  copy.box.back() = channels->extent;
  copy.to = at_origin(store->indices, origin, ranges);
  return copy;
}

}  // namespace

BulkCopy bulk_copy(const Stmt& nest, const std::vector<loop::Buffer>& params, const Analyzer& around) {
  std::vector<Stmt> loops = {nest};
  while (loop::is_bulk_loop(loops.back()->body[0])) loops.push_back(loops.back()->body[0]);
  Analyzer ranges = around;
  for (const Stmt& l : loops) ranges.bind(l->var, 0, l->extent);
  const Stmt& store = loops.back()->body[0];
  const bool filled = store->value.op() == Op::kSelect && is_zero(store->value.arg(2));
  const Expr& load = filled ? store->value.arg(1) : store->value;
  const auto tensor = std::ranges::find(params, load.op() == Op::kLoad ? load->name : "", &loop::Buffer::name);
  TW_CHECK(tensor != params.end() && !store->predicate, "{} is no bulk copy of a tensor", to_string(store->value));
  const Expr condition = filled ? store->value.arg(0) : Expr();
  // Lines along one dim are windows, too, where fewer of them are wanted than the tensor has.
  const bool box = moves_along_dim(nest, load->args) && all_inside(condition, load->args, tensor->shape, ranges);
  if (loops.size() == 2 && !box) return window_copy(loops, *tensor, condition, ranges);
  TW_CHECK(all_inside(condition, load->args, tensor->shape, ranges), "a bulk copy under the condition {}",
           to_string(condition));

  BulkCopy copy{tensor->name, tensor->shape, Shape(tensor->shape.size(), 1), {}, {}, store->buffer, {}};
  VarMap origin;
  size_t next = 0, next_to = store->indices.size() - loops.size();
  for (const Stmt& l : loops) {
    const size_t from = dim_of(l, load->args, ranges), to = dim_of(l, store->indices, ranges);
    // The box is stored in the buffer as in the tensor, line by line.
    TW_CHECK(from >= next && to == next_to, "bulk loop {} moves across another", l->var);
    copy.box[from] = l->extent;
    origin[l->var] = int_imm(0);
    next = from + 1;
    ++next_to;
  }
  TW_CHECK(next == load->args.size(), "a bulk copy across lines of {}", tensor->name);
  copy.start = at_origin(load->args, origin, ranges);
  copy.to = at_origin(store->indices, origin, ranges);
  return copy;
}

void take_part(BulkCopy& copy, int64_t parts, const Expr& part) {
  size_t dim = 0;
  while (copy.box[dim] == 1) ++dim;
  TW_CHECK(copy.box[dim] % parts == 0 && dim + 1 < copy.box.size(), "a box of {} in {} parts", copy.tensor, parts);
  // The box's dims are the last ones of the buffer.
  const size_t behind = static_cast<size_t>(std::ranges::count_if(copy.box.begin() + static_cast<ptrdiff_t>(dim),
                                                                  copy.box.end(), [](int64_t e) { return e > 1; }));
  copy.box[dim] /= parts;
  const Expr first = part * int_imm(copy.box[dim]);
  if (copy.pixels) {
    copy.pixels->first = copy.pixels->first + first;
    const std::vector<Expr> start = copy.pixels->start();
    std::ranges::copy(start, copy.start.begin());
  } else {
    copy.start[dim] = copy.start[dim] + first;
  }
  Expr& to = copy.to[copy.to.size() - behind];
  to = to + first;
}

std::vector<Stmt> bulk_nests(const std::vector<Stmt>& stmts) { return outermost(stmts, loop::is_bulk_loop); }

}  // namespace tw::codegen
