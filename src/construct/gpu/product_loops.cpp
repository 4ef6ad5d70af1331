#include "construct/gpu/product_loops.h"

#include <fmt/ranges.h>

#include <numeric>

#include "expr/affine.h"
#include "schedule/match/stages.h"
#include "support/join.h"
#include "support/math.h"
#include "te/reads.h"

namespace tw::construct {
namespace {

constexpr int64_t kMaxUnrolled = 16;

std::string dollared(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, "$")); }

std::vector<std::string> names_at(const te::Compute& c, const std::vector<size_t>& places) {
  return mapped(places, [&](size_t i) { return c.axes[i].name; });
}

// [.., steps], of which `last` is the last dim -> [k-blocks, .., steps of one].
Layout blocks_first(Layout layout, size_t last, int64_t steps, int64_t tile_k) {
  std::vector<int64_t> order = sequence(last + 2);
  std::rotate(order.begin(), order.end() - 2, order.end() - 1);
  return layout.split(static_cast<int>(last), {ceil_div(steps, tile_k), tile_k}).reorder(std::move(order));
}

std::string axis(size_t d) { return fmt::format("i{}", d); }

// Sums and maxima, which there are of pairs of 16-bit floats; all else is done in f32.
bool is_done_in_pairs(const te::Compute& c) {
  bool pairs = true;
  for (const Expr& body : c.body) {
    visit(body, [&](const Expr& e) {
      const bool moves = e.op() == Op::kLoad || e.op() == Op::kCast || e.op() == Op::kFloatImm;
      pairs = pairs && (!e.type().is_float() || moves || e.op() == Op::kAdd || e.op() == Op::kMax);
    });
  }
  return pairs;
}

}  // namespace

ProductLoops::ProductLoops(const te::Program& program, const MatrixProduct& product, const ThreadBlockTile& tile,
                           const TargetInfo& target, schedule::Schedule& s)
    : program_(program),
      sum_(*program.find_compute(product.sum)),
      p_(product),
      tile_(tile),
      target_(target),
      first_(product.batch.empty() ? 0 : 1),
      s_(s),
      left_(tile.by_matrix() ? Lines::kBehindEachOther : Lines::kBesideEachOther),
      right_(left_) {}

void ProductLoops::make_matrices() {
  std::vector<std::string> roles = {dollared(names_at(sum_, p_.rows)), dollared(names_at(sum_, p_.columns)),
                                    dollared(te::axis_names(p_.steps))};
  if (first_ == 1) roles.push_back(dollared(names_at(sum_, p_.batch)));
  std::vector<int64_t> multiples = {line_extent(Side::kLeft), line_extent(Side::kRight), tile_.tile_k};
  if (p_.zeros + p_.halo > 0) multiples.push_back(p_.steps.back().extent + p_.zeros);
  if (p_.halo > 0) multiples.push_back(p_.halo);
  s_.matrices(p_.sum, roles, std::move(multiples), p_.filter_positions ? p_.filter_positions->name : "");
  if (!by_matrix()) {
    for (const Side side : {Side::kLeft, Side::kRight}) set_layout(side, Lines::kBesideEachOther);
  }
  const int64_t columns = ceil_div(extent_at(sum_, p_.columns), line_extent(Side::kRight)) * line_extent(Side::kRight);
  const size_t column = first_ + (p_.filter_positions ? 1 : 0);
  Layout right = interleaved_columns(tile_, static_cast<int>(column), column + 2, columns);
  if (tile_.columns_stay) right = blocks_first(std::move(right), column + 1, te::num_points(p_.steps), tile_.tile_k);
  s_.layout(operand(Side::kRight), right);
  if (!tile_.batch.empty()) s_.layout(operand(Side::kLeft), packed_lines());
  s_.layout(sums(), sums_layout());
  inline_epilogue();
}

int64_t line_elements(int64_t bytes) {
  constexpr int64_t kLineBytes = 128;
  return kLineBytes / bytes;
}

// From [batch, line, step]. Beside each other: threads read neighbouring lines at one step.
void ProductLoops::set_layout(Side side, Lines lines) {
  this->lines(side) = lines;
  if (lines == Lines::kBehindEachOther) return;
  const int64_t block = block_elements(side);
  if (lines == Lines::kBlocksOfSteps) {
    s_.layout(operand(side),
              blocks_first(Layout(), first_ + 1, round_up(te::num_points(p_.steps), tile_.tile_k), block));
    return;
  }
  const auto line = static_cast<int64_t>(first_);
  Layout layout;
  std::vector<int64_t> order = sequence(first_);
  if (lines == Lines::kBlocksOfLines) {
    const int64_t all = extent_at(sum_, side == Side::kLeft ? p_.rows : p_.columns), tile = line_extent(side);
    layout = layout.split(static_cast<int>(line), {ceil_div(all, tile) * tile / block, block});
    order.insert(order.end(), {line, line + 2, line + 1});
  } else {
    order.insert(order.end(), {line + 1, line});
  }
  s_.layout(operand(side), layout.reorder(order));
}

int64_t ProductLoops::block_elements(Side side) const {
  const int64_t line = line_elements(read(side).type().bytes());
  const Lines stored = side == Side::kLeft ? left_ : right_;
  if (stored == Lines::kBlocksOfLines) return std::min(line, line_extent(side));
  return stored == Lines::kBlocksOfSteps ? line : tile_.tile_k;
}

std::vector<int64_t> ProductLoops::step_extents() const {
  if (!by_matrix()) return {tile_.tile_k};
  if (left_ != Lines::kBlocksOfSteps && right_ != Lines::kBlocksOfSteps)
    return {tile_.tile_k / kMatrixSteps, kMatrixSteps};
  const int64_t block = line_elements(read(Side::kRight).type().bytes());
  return {tile_.tile_k / block, block / kMatrixSteps, kMatrixSteps};
}

// [batch, row, step] -> [row, k-blocks, steps of one of each product]: products beside each other have one line.
Layout ProductLoops::packed_lines() const {
  const int64_t blocks = ceil_div(te::num_points(p_.steps), tile_.tile_k);
  return Layout().split(2, {blocks, tile_.tile_k}).reorder({1, 2, 0, 3}).fuse(2, 2);
}

// [batch, rows, columns] -> [batch, tiles, factors of rows.., tiles, factors of columns..], the batch of packed
// products as tiles and factors, too.
Layout ProductLoops::sums_layout() const {
  Layout layout;
  size_t dim = first_;
  if (!tile_.batch.empty()) {
    std::vector<int64_t> extents = {extent_at(sum_, p_.batch) / ThreadBlockTile::extent(tile_.batch)};
    for (const Factor& f : tile_.batch) extents.push_back(f.extent);
    layout = layout.split(0, extents);
    dim = extents.size();
  }
  for (const Side side : {Side::kLeft, Side::kRight}) {
    const bool left = side == Side::kLeft;
    const std::vector<Factor>& factors = left ? tile_.rows : tile_.columns;
    const int64_t all = left ? rows_read() : extent_at(sum_, p_.columns);
    std::vector<int64_t> extents = {ceil_div(all, line_extent(side))};
    for (const Factor& f : factors) extents.push_back(f.extent);
    layout = layout.split(static_cast<int>(dim), extents);
    dim += extents.size();
  }
  return layout;
}

// What is rounded to 16 bits between stages was meant to be stored: in registers that costs digits and, around what is
// done in f32, two conversions.
void ProductLoops::inline_epilogue() {
  bool wide = false, rounds = false;
  for (const te::Compute& c : program_.computes) {
    const bool follows = te::depends_on(program_, c, p_.sum);
    if ((follows || c.name() == p_.sum) && c.name() != p_.output) s_.inline_stage(c.name());
    wide = wide || (follows && !is_done_in_pairs(c));
    rounds = rounds || (follows && c.outputs[0].type.is_half());
  }
  if (wide && rounds) s_.whole(p_.output);
}

std::string ProductLoops::fused(const std::string& stage, const std::vector<std::string>& names) {
  if (names.size() > 1) s_.fuse(stage, names);
  return dollared(names);
}

std::vector<std::string> ProductLoops::tile_output() {
  const te::Compute& y = *program_.find_compute(p_.output);
  const std::vector<std::string> batch = names_at(y, p_.batch), columns = names_at(y, p_.columns);
  std::vector<std::string> rows = names_at(y, p_.rows);
  if (tile_.halo + p_.halo > 0) {  // a row of pixels goes on to the last one that is read
    const std::string pixel = rows.back();
    s_.split(y.name(), pixel, {pixels_read()});
    rows.back() = pixel + ".0";
    rows.push_back(pixel + ".1");
  }
  s_.reorder(y.name(), joined(batch, rows, columns));
  std::vector<std::string> tiles;
  TiledAxis packed;
  if (!batch.empty()) tiles.push_back(fused(y.name(), batch));
  if (!tile_.batch.empty()) {
    packed = split(y.name(), tiles.front(), tile_.batch);
    tiles.front() = packed.tile;
  }
  const TiledAxis row = split(y.name(), fused(y.name(), rows), tile_.rows);
  const TiledAxis column = split(y.name(), fused(y.name(), columns), tile_.columns);
  const std::vector<std::string> both = tile_as_sums(y.name(), packed, row, column, tiles);
  tiles.insert(tiles.end(), both.begin(), both.end());
  return tiles;
}

std::vector<std::string> ProductLoops::tile_as_sums(const std::string& stage, const std::string& rows,
                                                    const std::string& columns,
                                                    const std::vector<std::string>& around) {
  return tile_as_sums(stage, {}, split(stage, rows, tile_.rows), split(stage, columns, tile_.columns), around);
}

std::vector<std::string> ProductLoops::tile_as_sums(const std::string& stage, const TiledAxis& batch,
                                                    const TiledAxis& row, const TiledAxis& column,
                                                    const std::vector<std::string>& around) {
  // Neighbours of a cluster share the columns or the rows.
  const bool columns_first = tile_.row_cluster > 1;
  const std::vector<std::string> tiles = {columns_first ? column.tile : row.tile,
                                          columns_first ? row.tile : column.tile};
  std::vector<std::string> order = joined(around, tiles);
  add_threads(batch, row, column, order);
  for (const TiledAxis* tiled : {&batch, &row, &column}) {
    for (const auto& [loop, kind] : tiled->factors) {
      if (kind != FactorKind::kThreads) order.push_back(loop);
    }
  }
  s_.reorder(stage, order);
  for (const TiledAxis* tiled : {&batch, &row, &column}) {
    for (const auto& [loop, kind] : tiled->factors) {
      const bool vector = kind == FactorKind::kVector || kind == FactorKind::kMatrixVector;
      kind == FactorKind::kThreads ? s_.threads(stage, loop)
      : vector                     ? s_.vectorize(stage, loop)
                                   : s_.unroll(stage, loop);
    }
  }
  return tiles;
}

std::vector<std::string> ProductLoops::tile_lines(const std::string& stage) {
  const te::Compute& y = *program_.find_compute(p_.output);
  const std::string row = y.axes[p_.rows.front()].name, column = y.axes[p_.columns.front()].name;
  const int64_t rows = line_extent(Side::kLeft), columns = line_extent(Side::kRight);
  const int64_t lanes = std::gcd(kWarpThreads, columns), lines = std::gcd(tile_.threads() / lanes, rows);
  s_.reorder(stage, joined(names_at(y, p_.batch), std::vector{row, column}));
  std::vector<std::string> tiles;
  if (!p_.batch.empty()) tiles.push_back(fused(stage, names_at(y, p_.batch)));
  tiles.insert(tiles.end(), {row + ".0", column + ".0"});
  s_.split(stage, row, {rows / lines, lines}).split(stage, column, {columns / lanes, lanes});
  s_.reorder(stage, joined(tiles, std::vector{row + ".2", column + ".2", row + ".1", column + ".1"}));
  s_.threads(stage, row + ".2").threads(stage, column + ".2").unroll(stage, column + ".1");
  return tiles;
}

ProductLoops::TiledAxis ProductLoops::split(const std::string& stage, const std::string& loop,
                                            const std::vector<Factor>& factors) {
  TiledAxis tiled{loop + ".0", {}};
  std::vector<int64_t> extents;
  for (const Factor& f : factors) {
    extents.push_back(f.extent);
    tiled.factors.emplace_back(fmt::format("{}.{}", loop, extents.size()), f.kind);
  }
  s_.split(stage, loop, extents);
  return tiled;
}

// Threads of the batch, of rows, of columns, and last the innermost of both: a warp's lanes, as matrix instructions
// deal them out.
void ProductLoops::add_threads(const TiledAxis& batch, const TiledAxis& row, const TiledAxis& column,
                               std::vector<std::string>& order) {
  std::vector<std::string> lanes;
  for (const auto& [loop, kind] : batch.factors) {
    if (kind == FactorKind::kThreads) order.push_back(loop);
  }
  for (const TiledAxis* tiled : {&row, &column}) {
    std::vector<std::string> loops;
    for (const auto& [loop, kind] : tiled->factors) {
      if (kind == FactorKind::kThreads) loops.push_back(loop);
    }
    order.insert(order.end(), loops.begin(), loops.end() - 1);
    lanes.push_back(loops.back());
  }
  order.insert(order.end(), lanes.begin(), lanes.end());
}

// Columns that a thread holds together are pairs of several instructions.
void ProductLoops::split_pairs(TiledAxis& column) {
  const std::string together = column.factors.back().first;
  if (tile_.columns.back().extent == 2) return;
  s_.split(sums(), together, {2});
  const bool group = tile_.multiplier == Multiplier::kWarpGroup;
  column.factors.back() = {together + ".0", group ? FactorKind::kMatrix : FactorKind::kUnrolled};
  column.factors.emplace_back(together + ".1", FactorKind::kMatrixVector);
}

// The loops of the sums, whose axes are those of sums_layout(). Returns the loop of k-blocks.
std::string ProductLoops::tile_sums() {
  size_t dim = tile_.batch.empty() ? first_ : 0;
  const auto tiled_axis = [&](const std::vector<Factor>& factors) {
    TiledAxis tiled{axis(dim++), {}};
    for (const Factor& f : factors) tiled.factors.emplace_back(axis(dim++), f.kind);
    return tiled;
  };
  const TiledAxis batch = tile_.batch.empty() ? TiledAxis{axis(0), {}} : tiled_axis(tile_.batch);
  const TiledAxis row = tiled_axis(tile_.rows);
  TiledAxis column = tiled_axis(tile_.columns);
  if (by_matrix()) split_pairs(column);
  const std::vector<int64_t> extents = step_extents();
  s_.split(sums(), "r0", extents);
  std::vector<std::string> steps, order;  // those inside threads; the last one is a matrix instruction's
  for (size_t i = 1; i <= extents.size(); ++i) steps.push_back(fmt::format("r0.{}", i));

  if (first_ == 1) order.push_back(batch.tile);
  order.insert(order.end(), {row.tile, column.tile, "r0.0"});
  add_threads(batch, row, column, order);
  if (p_.filter_positions) order.emplace_back("r1");
  const auto outside = steps.end() - (by_matrix() ? 1 : 0);
  order.insert(order.end(), steps.begin(), outside);
  std::vector<std::string> matrix;
  const std::array<const TiledAxis*, 3> all = {&batch, &row, &column};
  for (const TiledAxis* tiled : all) {
    for (const auto& [loop, kind] : tiled->factors) {
      if (kind == FactorKind::kMatrix || kind == FactorKind::kMatrixVector) matrix.push_back(loop);
      if (kind == FactorKind::kUnrolled || kind == FactorKind::kVector) order.push_back(loop);
    }
  }
  order.insert(order.end(), matrix.begin(), matrix.end());
  order.insert(order.end(), outside, steps.end());
  s_.reorder(sums(), order);
  for (const TiledAxis* tiled : all) {
    for (const auto& [loop, kind] : tiled->factors) {
      if (kind == FactorKind::kThreads) s_.threads(sums(), loop);
      if (kind == FactorKind::kUnrolled) s_.unroll(sums(), loop);
      if (kind == FactorKind::kVector) s_.vectorize(sums(), loop);
    }
  }
  if (p_.filter_positions) s_.unroll(sums(), "r1");
  if (!by_matrix()) return "r0.0";
  for (auto step = steps.begin(); step != outside; ++step) s_.unroll(sums(), *step);
  s_.tensorize(sums(), matrix.front(), "mma", {});
  return "r0.0";
}

std::string ProductLoops::attach_sums(const std::string& stage, const std::string& loop) {
  s_.compute_at(sums(), stage, loop, loop::Scope::kRegister);
  return tile_sums();
}

void ProductLoops::attach_all(const std::string& stage, const std::string& loop) {
  const std::string steps = attach_sums(stage, loop);
  for (const Side side : {Side::kLeft, Side::kRight}) {
    if (side == Side::kRight && tile_.columns_stay) {
      attach_blocks(side, stage, loop);
      continue;
    }
    if (lines(side) == Lines::kBlocksOfLines) {
      tile_.tma ? fetch_blocks(side, sums(), steps) : attach_blocks(side, sums(), steps);
      continue;
    }
    if (!tile_.tma) {
      attach_operand(side, sums(), steps, tile_.tile_k);
      continue;
    }
    s_.compute_at(operand(side), sums(), steps, loop::Scope::kStack, 0);
    s_.tensorize(operand(side), axis(first_), "bulk", {});
  }
  s_.pipeline(sums(), steps, tile_.stages);
}

void ProductLoops::attach_blocks(Side side, const std::string& stage, const std::string& loop) {
  const std::string copy = operand(side);
  const OperandAccess by = access(side);
  const int64_t block = block_elements(side), bytes = read(side).type().bytes();
  const bool of_lines = lines(side) == Lines::kBlocksOfLines;
  s_.compute_at(copy, stage, loop, loop::Scope::kStack, of_lines ? line_elements(bytes) - block : 0);
  const size_t last = first_ + (p_.filter_positions ? 3 : 2);  // behind the blocks
  const int64_t lanes = by.by_steps == of_lines ? 1 : std::gcd(by.lanes, block);
  std::vector<std::string> all;
  for (size_t d = 0; d < last; ++d) all.push_back(axis(d));
  s_.split(copy, axis(last), {lanes});
  all.push_back(axis(last) + ".0");
  const std::string one = fused(copy, all);
  s_.split(copy, one, {tile_.threads()}).reorder(copy, {one + ".1", one + ".0", axis(last) + ".1"});
  s_.threads(copy, one + ".1").vectorize(copy, axis(last) + ".1");
  s_.unroll(copy, one + ".0");  // an index of blocks divides it
}

// Boxes of a tensor: one dim of it runs along what is beside each other, another one along the rest.
bool ProductLoops::may_fetch_blocks(Side side, int64_t all) const {
  const Expr& load = read(side);
  const std::vector<size_t>& places = side == Side::kLeft ? p_.rows : p_.columns;
  const bool boxes = has_feature(target_, "tma") && p_.steps.size() == 1 && places.size() == 1;
  if (!boxes || block_elements(side) != line_elements(load.type().bytes())) return false;
  const bool of_lines = (side == Side::kLeft ? left_ : right_) == Lines::kBlocksOfLines;
  const te::Axis &of_line = sum_.axes[places[0]], &step = p_.steps[0];
  return of_lines ? is_read_in_boxes(program_, load, of_line, step, all, tile_.tile_k)
                  : is_read_in_boxes(program_, load, step, of_line, all, line_extent(side));
}

bool ProductLoops::lies_in_blocks(Side side) const {
  return tile_.multiplier == Multiplier::kWarpGroup && tile_.batch.empty() && !p_.filter_positions &&
         read(side).type().is_half() && !access(side).by_steps &&
         line_extent(side) % line_elements(read(side).type().bytes()) == 0;
}

void ProductLoops::read_in_blocks() {
  for (const Side side : {Side::kLeft, Side::kRight}) {
    if (lies_in_blocks(side)) set_layout(side, Lines::kBlocksOfLines);
  }
}

void ProductLoops::fetch_blocks(Side side, const std::string& stage, const std::string& loop) {
  const std::string copy = operand(side);
  s_.compute_at(copy, stage, loop, loop::Scope::kStack, 0);
  s_.unroll(copy, axis(lines(side) == Lines::kBlocksOfLines ? first_ : 0));
  s_.tensorize(copy, axis(first_ + 1), "bulk", {});
}

std::string ProductLoops::describe() const {
  const int64_t packed = ThreadBlockTile::extent(tile_.batch);
  std::string text = tile_.batch.empty() ? "tiles of " : fmt::format("tiles of {} products of ", packed);
  text += fmt::format("{} x {} sums by {} threads, {} steps at a time, {} blocks of them under way",
                      line_extent(Side::kLeft), line_extent(Side::kRight), tile_.threads(), tile_.tile_k, tile_.stages);
  if (by_matrix()) text += ", by matrix instructions";
  if (tile_.multiplier == Multiplier::kWarpGroup) text += " of warp groups";
  if (tile_.tma) text += ", by TMA";
  if (tile_.columns_stay) text += ", the columns' operand brought once";
  if (p_.filter_positions) text += fmt::format(", one for {} filter positions of windows", p_.filter_positions->extent);
  if (tile_.row_cluster > 1) text += fmt::format(", in clusters of {} sharing columns", tile_.row_cluster);
  if (tile_.column_cluster > 1) text += fmt::format(", in clusters of {} sharing rows", tile_.column_cluster);
  if (tile_.persistent_blocks == 0) return text;
  return text + fmt::format(", a persistent block on each SM walking over them {} at a time", tile_.together);
}

OperandAccess ProductLoops::access(Side side) const {
  const te::Axis& line = sum_.axes[(side == Side::kLeft ? p_.rows : p_.columns).back()];
  return access_of(read(side), p_.steps.back(), line, target_);
}

void ProductLoops::attach_operand(Side side, const std::string& stage, const std::string& loop, int64_t steps) {
  const std::string copy = operand(side);
  OperandAccess by = access(side);
  by.lanes = std::gcd(by.lanes, by.by_steps ? steps : line_extent(side));
  const int64_t bytes = read(side).type().bytes();
  const bool steps_last = (side == Side::kLeft ? left_ : right_) == Lines::kBehindEachOther;
  const int64_t packed = ThreadBlockTile::extent(tile_.batch);
  // Of packed products the left one has lines of all of them (packed_lines), the right one lines of each.
  const bool packed_line = packed > 1 && side == Side::kLeft;
  const int64_t elements = !steps_last ? line_extent(side) : packed_line ? packed * steps : steps;
  s_.compute_at(copy, stage, loop, loop::Scope::kStack, tile_.line_pad_bytes(elements, bytes) / bytes);
  std::string fast = packed_line ? axis(2) : axis(first_ + (by.by_steps == steps_last ? 1 : 0));
  const std::string slow = packed_line ? axis(0) : axis(first_ + (by.by_steps == steps_last ? 0 : 1));
  std::string lane;
  if (by.lanes > 1) {
    s_.split(copy, fast, {by.lanes});
    lane = fast + ".1";
    fast += ".0";
  }
  std::vector<std::string> order = {slow, fast};
  if (packed > 1 && !packed_line) order.insert(order.begin(), axis(0));
  const std::string all = dollared(order);
  std::vector<std::string> loops = order;
  if (packed_line) loops.insert(loops.begin(), axis(1));  // one k-block
  if (!lane.empty()) loops.push_back(lane);
  s_.reorder(copy, loops).fuse(copy, order);
  s_.split(copy, all, {tile_.threads()}).reorder(copy, {all + ".1", all + ".0"});
  s_.threads(copy, all + ".1");
  // Where a turn's threads take no whole lines, or no whole blocks of interleaved ones, it divides by the turn's
  // number: not in a loop.
  const int64_t vectors = (packed_line ? packed : 1) * (by.by_steps ? steps : line_extent(side)) / by.lanes;
  const int64_t interleaved = tile_.columns.back().extent, block = interleaved > 2 ? 4 * interleaved : 1;
  const int64_t turns = ceil_div(packed * line_extent(side) * steps / by.lanes, tile_.threads());
  const bool even = tile_.threads() % vectors == 0 && (!by_matrix() || tile_.threads() / vectors % block == 0);
  if (turns <= kMaxUnrolled || !even) s_.unroll(copy, all + ".0");
  if (!lane.empty()) s_.vectorize(copy, lane);
}

}  // namespace tw::construct
