// Element-wise stages that read a tensor across the order of their output, on GPUs: a tile is a rectangle of both
// orders that goes through shared memory, so that both sides of it move whole lines.
#include <algorithm>
#include <bit>
#include <numeric>

#include "construct/construct.h"
#include "schedule/match/stages.h"
#include "support/join.h"
#include "te/reads.h"

namespace tw::construct {
namespace {

constexpr int64_t kTileThreads = 256;
constexpr int64_t kMaxUnrolled = 16;
constexpr int64_t kMinSide = 8;  // side of a tile: shorter lines are read as well by a thread for each element

// A read whose indices are the stage's axes in another order: the axis that is contiguous there.
struct Crossing {
  std::string tensor;
  size_t axis = 0;                  // of the stage: the last dim of the tensor
  size_t last_dim = 0;              // of the tensor: where the stage's last axis is
  std::vector<int64_t> which = {};  // of its reads in the stage, where there are others: beside it, in its own order
};

std::optional<Crossing> crossing_of(const te::Compute& c, const Expr& read) {
  const size_t rank = read->args.size();
  Crossing found{read->name, 0, rank};
  for (size_t d = 0; d < rank; ++d) {
    const auto axis = std::ranges::find(c.axes, read.arg(d)->name, &te::Axis::name);
    if (!read.arg(d).is_var() || axis == c.axes.end()) return std::nullopt;
    const auto a = static_cast<size_t>(axis - c.axes.begin());
    if (d + 1 == rank) found.axis = a;
    if (a + 1 == c.axes.size()) found.last_dim = d;
  }
  return found.last_dim < rank && found.axis + 1 < c.axes.size() ? std::optional(found) : std::nullopt;
}

// One side of a tile.
struct TileSide {
  std::string loop;
  int64_t extent = 0;
  int64_t together = 1;  // tiles that follow each other along it
};

// How large tiles are, what one thread moves: elements beside each other, and how many tiles at most follow each other
// along either axis.
struct TransposeTiling {
  int64_t line_bytes, lanes, together;
};

// Threads that move single elements wait for the many instructions. Memory is fast where what is under way at a time
// shares its pages, on both sides: longer lines, or blocks of tiles.
constexpr TransposeTiling kTilings[] = {{128, 2, 1}, {128, 2, 8}, {256, 2, 4}, {256, 2, 1},
                                        {256, 4, 4}, {256, 4, 1}, {128, 1, 1}};

// Rows of a tile, dealt to neighbouring threads along its lines.
void map_tile_to_threads(schedule::Schedule& s, const std::string& stage, const TileSide& rows, const TileSide& line,
                         int64_t lanes) {
  const int64_t threads = std::min(kTileThreads * lanes / line.extent, rows.extent);
  const std::string row = rows.loop + ".1", part = line.loop + ".0", lane = line.loop + ".1";
  s.split(stage, rows.loop, {threads}).split(stage, line.loop, {lanes});
  s.reorder(stage, {row, part, rows.loop + ".0", lane}).threads(stage, row).threads(stage, part);
  if (rows.extent / threads <= kMaxUnrolled) s.unroll(stage, rows.loop + ".0");
  lanes > 1 ? s.vectorize(stage, lane) : s.unroll(stage, lane);
}

// A tile along an axis: a line, or what the axis has.
TileSide side_of(const te::Axis& axis, DataType type, const TransposeTiling& tiling) {
  const int64_t line = std::clamp<int64_t>(tiling.line_bytes / type.bytes(), 32, tiling.line_bytes / 2);
  const int64_t extent = std::min(line, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(axis.extent))));
  return {axis.name + ".1", extent, axis.extent % extent == 0 ? std::gcd(axis.extent / extent, tiling.together) : 1};
}

void tile_stage(schedule::Schedule& s, const te::Program& program, const std::vector<Crossing>& crossings,
                const TileSide& across, const TileSide& last, const TransposeTiling& tiling) {
  const te::Compute& c = program.computes.front();
  const std::string &other = c.axes[crossings[0].axis].name, &inner = c.axes.back().name;
  for (const Crossing& x : crossings)
    x.which.empty() ? s.cache_read(x.tensor, {}) : s.cache_read(x.tensor, {c.name()}, x.which);
  s.split(c.name(), other, {across.extent}).split(c.name(), inner, {last.extent});
  std::vector<std::string> tiles, together;
  for (const te::Axis& axis : c.axes) {
    const bool is_tiled = axis.name == other || axis.name == inner;
    tiles.push_back(is_tiled ? axis.name + ".0" : axis.name);
    const int64_t count = !is_tiled ? 1 : axis.name == other ? across.together : last.together;
    if (count == 1) continue;
    s.split(c.name(), tiles.back(), {count});
    together.push_back(tiles.back() + ".1");
    tiles.back() += ".0";
  }
  tiles = joined(tiles, together);
  s.reorder(c.name(), joined(tiles, std::vector{across.loop, last.loop})).parallel(c.name(), tiles);
  for (const Crossing& x : crossings) {  // columns meet other banks, pairs stay whole words
    s.compute_at(x.tensor + ".cache", c.name(), tiles.back(), loop::Scope::kStack, std::min<int64_t>(tiling.lanes, 2));
    const size_t rank = program.tensor(x.tensor).shape.size();
    map_tile_to_threads(s, x.tensor + ".cache", {fmt::format("i{}", x.last_dim), last.extent},
                        {fmt::format("i{}", rank - 1), across.extent}, tiling.lanes);
  }
  map_tile_to_threads(s, c.name(), across, last, tiling.lanes);
}

}  // namespace

Result<Candidates> construct_gpu_transpose(const GroupTask& task, const TargetInfo&) {
  Construction inlined;
  const te::Program program = schedule::inline_stages(inlined.schedule, task.program);
  if (program.computes.size() != 1) return declined("several stages");
  const te::Compute& c = program.computes.front();
  if (c.is_reduction() || c.outputs.size() != 1 || c.axes.size() < 2)
    return declined("no element-wise stage of a matrix");
  std::vector<Crossing> crossings;
  bool differ = false;
  for (const te::Tensor& input : program.inputs) {
    const std::vector<Expr> reads = te::distinct_reads(c, input.name);
    for (size_t r = 0; r < reads.size(); ++r) {
      std::optional<Crossing> found = crossing_of(c, reads[r]);
      if (!found) continue;
      if (reads.size() > 1) found->which = {static_cast<int64_t>(r) + 1};
      for (const Crossing& x : crossings) differ = differ || x.axis != found->axis || x.tensor == found->tensor;
      crossings.push_back(std::move(*found));
    }
  }
  if (crossings.empty()) return declined("no read across the output's order");
  if (differ) return declined("reads across the output's order along different axes, or twice");
  const te::Axis &other = c.axes[crossings[0].axis], &last = c.axes.back();
  Candidates all;
  for (const TransposeTiling& tiling : kTilings) {
    const TileSide across = side_of(other, c.outputs[0].type, tiling), along = side_of(last, c.outputs[0].type, tiling);
    if (std::min(across.extent, along.extent) < kMinSide) return declined("smaller than a tile");
    const bool in_blocks = across.together * along.together > 1;
    if (std::gcd(other.extent, last.extent) % tiling.lanes != 0 || (tiling.together > 1 && !in_blocks)) continue;
    Construction made = inlined;
    tile_stage(made.schedule, program, crossings, across, along, tiling);
    made.trace = {fmt::format(
        "tiles of {} x {} elements through shared memory, {} by a thread{}", across.extent, along.extent, tiling.lanes,
        in_blocks ? fmt::format(", in blocks of {} x {} tiles", across.together, along.together) : "")};
    all.push_back(std::move(made));
  }
  return best_distinct(std::move(all));
}

}  // namespace tw::construct
