// Bulk copies of convolutions' operands: TMA, as the PTX ISA describes it, brings what the loops say.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/cuda/bulk.h"
#include "support/error.h"
#include "support/math.h"

namespace tw::codegen {
namespace {

struct Conv {
  int64_t images, height, width, channels, kernel, stride, pad, dilation = 1, rows = 128;
  int64_t beyond = 0;  // lines of the next tile that a tile has, too
  int64_t lines() const { return rows + beyond; }
  int64_t halo() const { return dilation * (kernel - 1); }
  int64_t out(int64_t size) const { return (size + 2 * pad - halo() - 1) / stride + 1; }
  int64_t pixels() const { return images * out(height) * out(width); }
  int64_t tiles() const { return ceil_div(pixels(), rows); }
  int64_t turns() const { return kernel * kernel * channels / 64; }
};

Analyzer ranges_of(const Conv& c) {
  Analyzer ranges;
  ranges.bind("tile", 0, c.tiles());
  ranges.bind("turn", 0, c.turns());
  return ranges;
}

// Lines are pixels of tile `tile`, their elements the channels of block `turn` of [kernel, kernel, channels].
loop::Stmt gather(const Conv& c, const Expr& zero) {
  Analyzer ranges = ranges_of(c);
  ranges.bind("row", 0, c.lines());
  ranges.bind("step", 0, 64);
  const Expr pixel = var("tile") * Expr(c.rows) + var("row"), step = var("turn") * Expr(64) + var("step");
  const int64_t h = c.out(c.height), w = c.out(c.width);
  const auto place = [&](const Expr& position, const Expr& filter_position) {
    return position * Expr(c.stride) + filter_position * Expr(c.dilation) - Expr(c.pad);
  };
  const Expr whole = floor_div(pixel, int_imm(w));
  const Expr image = c.images == 1 ? int_imm(0) : floor_div(whole, int_imm(h));
  const Expr y =
      place(c.images == 1 ? whole : floor_mod(whole, int_imm(h)), floor_div(step, int_imm(c.kernel * c.channels)));
  const Expr x =
      place(floor_mod(pixel, int_imm(w)), floor_mod(floor_div(step, int_imm(c.channels)), int_imm(c.kernel)));
  Expr inside = pixel < Expr(c.pixels());
  for (const auto& [index, size] : {std::pair{y, c.height}, {x, c.width}})
    inside = inside && Expr(0) <= index && index < Expr(size);
  const Expr read = load("X", DataType::f16(), {image, y, x, floor_mod(step, int_imm(c.channels))});
  const loop::Stmt store =
      loop::make_store("A", {var("row"), var("step")}, ranges.simplify(select(inside, read, zero)));
  return loop::make_for("row", c.lines(), loop::ForKind::kBulk,
                        {loop::make_for("step", 64, loop::ForKind::kBulk, {store})});
}

std::vector<loop::Buffer> params(const Conv& c) {
  loop::Buffer x;
  x.name = "X";
  x.type = DataType::f16();
  x.shape = {c.images, c.height, c.width, c.channels};
  return {x};
}

int64_t value(const Expr& e, const VarMap& at) {
  const Expr v = Analyzer().simplify(substitute(e, at));
  return v.op() == Op::kIntImm ? v->value : INT64_MIN;
}

constexpr int64_t kZero = -1;

// Number of the element of X that the loops put at [row, 0] of A.
int64_t said(const Conv& c, const loop::Stmt& nest, VarMap at, int64_t row) {
  at.insert_or_assign("row", int_imm(row));
  at.insert_or_assign("step", int_imm(0));
  Expr e = nest->body[0]->body[0]->value;
  if (e.op() == Op::kSelect) {
    if (value(e.arg(0), at) == 0) return kZero;
    e = e.arg(1);
  }
  int64_t number = 0;
  const Shape shape = params(c)[0].shape;
  for (size_t d = 0; d < shape.size(); ++d) number = number * shape[d] + value(e.arg(d), at);
  return number;
}

// What the engine puts there: position by position, rows of positions one after the other, then the next image.
int64_t brought(const Conv& c, const BulkCopy& copy, const VarMap& at, int64_t row) {
  const CudaWindows& w = copy.pixels->windows;
  std::vector<int64_t> start, offsets;
  for (const Expr& e : copy.start) start.push_back(value(e, at));
  for (const Expr& e : copy.pixels->offsets) offsets.push_back(value(e, at));
  int64_t position = start[0];
  for (size_t d = 0; d < 2; ++d) position = position * w.extents[d] + (start[d + 1] + w.before[d]) / w.steps[d];
  position += row;
  const int64_t x = position % w.extents[1] * w.steps[1] - w.before[1] + offsets[1];
  const int64_t y = position / w.extents[1] % w.extents[0] * w.steps[0] - w.before[0] + offsets[0];
  const int64_t image = position / (w.extents[0] * w.extents[1]);
  if (image >= c.images || y < 0 || y >= c.height || x < 0 || x >= c.width) return kZero;
  return ((image * c.height + y) * c.width + x) * c.channels + start[3];
}

// With `parts`: as the tiles of a cluster fetch it.
void expect_equal(const Conv& c, int64_t parts = 1) {
  const loop::Stmt nest = gather(c, imm(DataType::f16(), 0));
  BulkCopy copy = bulk_copy(nest, params(c), ranges_of(c));
  ASSERT_TRUE(copy.pixels.has_value());
  EXPECT_EQ(copy.box, (Shape{c.lines(), 1, 1, 64}));
  if (parts > 1) take_part(copy, parts, var("part"));
  for (int64_t tile = 0; tile < c.tiles(); ++tile) {
    for (int64_t turn = 0; turn < c.turns(); ++turn) {
      for (int64_t row = 0; row < c.lines(); row += 3) {
        const int64_t lines = c.lines() / parts;
        const VarMap at = {{"tile", int_imm(tile)}, {"turn", int_imm(turn)}, {"part", int_imm(row / lines)}};
        ASSERT_EQ(brought(c, copy, at, row % lines), said(c, nest, at, row)) << tile << " " << turn << " " << row;
      }
    }
  }
}

TEST(WindowCopy, TheEngineBringsWhatTheLoopsSay) {
  const Conv cases[] = {{2, 9, 9, 64, 3, 1, 1},      {1, 9, 11, 128, 3, 1, 1}, {3, 14, 6, 64, 3, 2, 1},
                        {2, 16, 16, 64, 3, 1, 1},    {1, 32, 32, 64, 3, 1, 1}, {2, 8, 7, 64, 1, 2, 0},
                        {2, 12, 12, 64, 3, 1, 2, 2}, {1, 9, 16, 64, 3, 1, 1},  {1, 20, 224, 64, 3, 1, 1, 1, 256}};
  for (const Conv& c : cases) {
    SCOPED_TRACE(fmt::format("{} x {} x {} x {}, kernel {}, stride {}, pad {}", c.images, c.height, c.width, c.channels,
                             c.kernel, c.stride, c.pad));
    expect_equal(c);
  }
}

TEST(WindowCopy, TilesMayOverlap) {
  expect_equal({2, 16, 16, 64, 3, 1, 1, 1, 128, 2});
  expect_equal({1, 32, 32, 64, 3, 1, 1, 1, 64, 4});
}

TEST(WindowCopy, OnePositionOfEachImageIsABox) {
  const Conv c{40, 3, 3, 64, 3, 1, 0};
  const BulkCopy copy = bulk_copy(gather(c, imm(DataType::f16(), 0)), params(c), ranges_of(c));
  EXPECT_FALSE(copy.pixels.has_value());
  EXPECT_EQ(copy.box, (Shape{128, 1, 1, 64}));
}

// [spatial.., channels]: a tensor of one image, whose dim was merged with the next one.
TEST(WindowCopy, OneImageNeedsNoDim) {
  const Conv c{1, 9, 11, 64, 3, 2, 1};
  const loop::Stmt nest = gather(c, imm(DataType::f16(), 0));
  loop::Rewriter drop;
  drop.expr = [](const Expr& value) {
    return rewrite(value, [](const Expr& e) {
      return e.op() == Op::kLoad ? load("X", e.type(), {e->args.begin() + 1, e->args.end()}) : Expr();
    });
  };
  std::vector<loop::Buffer> tensor = params(c);
  tensor[0].shape.erase(tensor[0].shape.begin());
  const BulkCopy copy = bulk_copy(loop::rewrite({nest}, drop)[0], tensor, ranges_of(c));
  ASSERT_TRUE(copy.pixels.has_value());
  EXPECT_EQ(copy.shape, (Shape{1, 9, 11, 64}));
  EXPECT_EQ(copy.box, (Shape{128, 1, 1, 64}));
  const VarMap second = {{"tile", int_imm(0)}, {"turn", int_imm(1)}};
  EXPECT_EQ(brought(c, copy, second, 7), said(c, nest, second, 7));
}

// The rows' loop is all that counts pixels: that of the filter positions moves them, too.
TEST(WindowCopy, FilterPositionsAreNoTiles) {
  Analyzer ranges;
  ranges.bind("tile", 0, 4);
  ranges.bind("turn", 0, 2);
  ranges.bind("row", 0, 64);
  ranges.bind("step", 0, 64);
  loop::Buffer x;
  x.name = "X";
  x.type = DataType::f16();
  x.shape = {217, 64};
  // [pixel, channel], padded behind: as many pixels less the halo of two filter positions.
  for (const int64_t dilation : {1, 2}) {
    const int64_t pixels = 218 - dilation;
    const Expr pixel = var("tile") * Expr(64) + var("row"), place = pixel + var("turn") * Expr(dilation);
    const Expr value = select(pixel < Expr(pixels) && place < Expr(217),
                              load("X", DataType::f16(), {place, var("step")}), imm(DataType::f16(), 0));
    const loop::Stmt store = loop::make_store("A", {var("row"), var("step")}, ranges.simplify(value));
    const loop::Stmt nest =
        loop::make_for("row", 64, loop::ForKind::kBulk, {loop::make_for("step", 64, loop::ForKind::kBulk, {store})});
    const BulkCopy copy = bulk_copy(nest, {x}, ranges);
    ASSERT_TRUE(copy.pixels.has_value());
    EXPECT_EQ(copy.pixels->windows.extents, (Shape{pixels}));
    EXPECT_EQ(to_string(copy.pixels->first), "(tile * 64)");
    EXPECT_EQ(copy.shape, (Shape{1, 217, 64}));
  }
}

TEST(WindowCopy, TilesOfAClusterFetchParts) { expect_equal({2, 9, 10, 64, 3, 2, 1}, 2); }

TEST(WindowCopy, OtherGathersAreRefused) {
  const Conv c{2, 9, 9, 64, 3, 1, 1};
  EXPECT_THROW(bulk_copy(gather(c, imm(DataType::f16(), 1)), params(c), ranges_of(c)), InternalError)
      << "edges that are not zero";
  Conv smaller = c;
  smaller.height = 8;
  EXPECT_THROW(bulk_copy(gather(c, imm(DataType::f16(), 0)), params(smaller), ranges_of(c)), InternalError)
      << "the edge is not the tensor's";
  const Expr scattered = floor_mod(var("row") * Expr(5), int_imm(7));
  const loop::Stmt store = loop::make_store("A", {var("row"), var("step")},
                                            load("X", DataType::f16(), {Expr(0), scattered, Expr(0), var("step")}));
  EXPECT_THROW(bulk_copy(loop::make_for("row", 128, loop::ForKind::kBulk,
                                        {loop::make_for("step", 64, loop::ForKind::kBulk, {store})}),
                         params(c), ranges_of(c)),
               InternalError)
      << "no pixels in a row";
}

}  // namespace
}  // namespace tw::codegen
