// Bulk copies whose lines are consecutive pixels of a convolution's result, each with its own place in the images.
#include <algorithm>
#include <ranges>

#include "codegen/cuda/bulk.h"
#include "expr/affine.h"

namespace tw::codegen {
namespace {

// The indices of a tensor [image, y.., channel] by the number of a line: that of its pixel in the result.
class PixelIndices {
 public:
  /// Line `row` of tile `tile` (empty: there is one) is pixel tile * rows + row of `pixels`; tiles may overlap.
  PixelIndices(const std::vector<Expr>& indices, const std::string& row, int64_t rows, const std::string& tile,
               const Analyzer& ranges)
      : indices_(indices), row_(row), rows_(rows), tile_(tile), ranges_(ranges) {}

  Expr first() const { return tile_.empty() ? int_imm(0) : var(tile_) * int_imm(rows_); }
  Expr number() const { return first() + var(row_); }

  /// Where pixel `number` is read in dim `d`, with every other variable 0.
  std::optional<int64_t> at(size_t d, int64_t number) const {
    VarMap values;
    for (const std::string& name : variables(indices_[d])) values.insert_or_assign(name, int_imm(0));
    if (!tile_.empty()) values.insert_or_assign(tile_, int_imm(number / rows_));
    values.insert_or_assign(row_, int_imm(tile_.empty() ? number : number % rows_));
    const Expr value = ranges_.simplify(substitute(indices_[d], values));
    if (value.op() != Op::kIntImm) return std::nullopt;
    return value->value;
  }

  static std::set<std::string> variables(const Expr& e) {
    std::set<std::string> names;
    visit(e, [&](const Expr& x) {
      if (x.is_var()) names.insert(x->name);
    });
    return names;
  }

 private:
  const std::vector<Expr>& indices_;
  std::string row_;
  int64_t rows_;
  std::string tile_;
  const Analyzer& ranges_;
};

// One dim's positions: they move by `step` from pixel to pixel until they begin again, after `extent` of them.
struct Positions {
  int64_t step = 1, extent = 1;
};

std::optional<Positions> positions_of(const PixelIndices& indices, size_t d, int64_t period, int64_t pixels) {
  const std::optional<int64_t> begin = indices.at(d, 0);
  if (!begin) return std::nullopt;
  Positions found;
  for (; found.extent * period < pixels; ++found.extent) {
    const std::optional<int64_t> next = indices.at(d, found.extent * period);
    if (!next) return std::nullopt;
    if (*next == *begin) break;
    if (found.extent == 1) found.step = *next - *begin;
  }
  return found;
}

Expr simplified_difference(const Expr& a, const Expr& b, const Analyzer& ranges) { return ranges.simplify(a - b); }

// What of `index` does not move with the pixels' digit, or nothing: index = digit * step + rest.
std::optional<Expr> rest_of(const Expr& index, const Expr& digit, int64_t step, const std::set<std::string>& moving,
                            const Analyzer& ranges) {
  const Expr rest = simplified_difference(index, digit * int_imm(step), ranges);
  if (std::ranges::any_of(moving, [&](const std::string& name) { return uses_var(rest, name); })) return std::nullopt;
  return rest;
}

// The most pixels there can be: a condition `number < n` says so, else the ranges of the variables.
int64_t count_pixels(const Expr& number, const Expr& condition, const Analyzer& ranges) {
  int64_t max = ranges.bounds(number).hi + 1;
  const auto find = [&](const auto& self, const Expr& term) -> void {
    if (term.op() == Op::kAnd) {
      for (const Expr& part : term->args) self(self, part);
    } else if (term.op() == Op::kLt && term.arg(1).op() == Op::kIntImm &&
               simplified_difference(term.arg(0), number, ranges).is_int(0)) {
      max = std::min(max, term.arg(1)->value);
    }
  };
  if (condition) find(find, condition);
  return max;
}

// The digits of pixel `number` in mixed radix `extents`, the image's number first.
std::vector<Expr> digits_of(const Expr& number, const Shape& extents) {
  std::vector<Expr> digits(extents.size() + 1);
  Expr rest = number;
  for (size_t d = extents.size(); d > 0; --d) {
    digits[d] = floor_mod(rest, int_imm(extents[d - 1]));
    rest = floor_div(rest, int_imm(extents[d - 1]));
  }
  digits[0] = rest;
  return digits;
}

std::optional<Pixels> pixels_of(const std::vector<Expr>& indices, const PixelIndices& by_number, int64_t count,
                                const std::set<std::string>& moving, const Analyzer& ranges) {
  const size_t dims = indices.size() - 2;
  Pixels found{by_number.first(), {Shape(dims), Shape(dims), Shape(dims)}, std::vector<Expr>(dims)};
  int64_t period = 1;
  for (size_t d = dims; d > 0; --d) {
    const std::optional<Positions> positions = positions_of(by_number, d, period, count);
    if (!positions || positions->step < 1) return std::nullopt;
    found.windows.steps[d - 1] = positions->step;
    found.windows.extents[d - 1] = positions->extent;
    period *= positions->extent;
  }
  const std::vector<Expr> digits = digits_of(by_number.number(), found.windows.extents);
  const bool one_image = count <= period && indices[0].is_int(0);
  if (!one_image && !simplified_difference(indices[0], digits[0], ranges).is_int(0)) return std::nullopt;
  Expr whole = by_number.number();  // the digit of the outermost dim in which there is more than one position
  for (size_t d = dims; d > 0; --d) {
    std::optional<Expr> rest = rest_of(indices[d], digits[d], found.windows.steps[d - 1], moving, ranges);
    if (!rest && count <= period) rest = rest_of(indices[d], whole, found.windows.steps[d - 1], moving, ranges);
    if (!rest) return std::nullopt;
    const Interval range = ranges.bounds(*rest);
    if (range.lo > 0 || range.lo < -range.kMax / 2) return std::nullopt;
    found.windows.before[d - 1] = -range.lo;
    found.offsets[d - 1] = ranges.simplify(*rest - int_imm(range.lo));
    whole = floor_div(whole, int_imm(found.windows.extents[d - 1]));
  }
  return found;
}

// By how many pixels the lines of tile `tile` may be behind those of the one before: as many as a tile has, or fewer,
// where tiles overlap: then the last ones pass the end, and a condition names their number.
std::set<int64_t> strides_of(const Expr& condition, const loop::Stmt& lines, const std::string& tile) {
  std::set<int64_t> strides = {lines->extent};
  if (!condition) return strides;
  visit(condition, [&](const Expr& e) {
    const int64_t stride = coefficient_of(e, lines->var) == 1 ? coefficient_of(e, tile).value_or(0) : 0;
    if (stride > 0 && stride < lines->extent) strides.insert(stride);
  });
  return strides;
}

}  // namespace

std::vector<Expr> Pixels::start() const {
  std::vector<Expr> place = digits_of(first, windows.extents);
  for (size_t d = 0; d < windows.steps.size(); ++d)
    place[d + 1] = place[d + 1] * int_imm(windows.steps[d]) - int_imm(windows.before[d]);
  return place;
}

std::vector<Pixels> find_pixels(const std::vector<Expr>& indices, const loop::Stmt& lines, const Expr& condition,
                                const Analyzer& ranges) {
  if (indices.size() < 3) return {};
  std::set<std::string> tiles = {""};
  for (size_t d = 0; d + 1 < indices.size(); ++d) tiles.merge(PixelIndices::variables(indices[d]));
  tiles.erase(lines->var);
  std::vector<Pixels> ways;
  for (const std::string& tile : std::views::reverse(tiles)) {  // none, "", last: conditions count from the first tile
    for (const int64_t stride : strides_of(condition, lines, tile)) {
      const PixelIndices by_number(indices, lines->var, stride, tile, ranges);
      const int64_t count = count_pixels(by_number.number(), condition, ranges);
      std::optional<Pixels> found = pixels_of(indices, by_number, count, {lines->var, tile}, ranges);
      if (found) ways.push_back(*std::move(found));
    }
  }
  return ways;
}

}  // namespace tw::codegen
