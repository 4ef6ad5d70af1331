// Element-wise stages that read a tensor across the order of their output, on devices whose tiles have threads: a tile
// is a rectangle of both orders that goes through shared memory, so that both sides of it move whole lines.
#include <algorithm>
#include <bit>

#include "schedule/stages.h"
#include "support/join.h"
#include "te/reads.h"
#include "tune/construct/construct.h"
#include "tune/construct/elementwise.h"

namespace tw::tune {
namespace {

constexpr int64_t kLine = 128;  // bytes that the threads of a warp move together
constexpr int64_t kTileThreads = 256;
constexpr int64_t kMostUnrolled = 16;
constexpr int64_t kLeastSide = 8;  // of a tile: a thread for each element reads shorter lines as well

// A read whose indices are the stage's axes in another order: the axis that is contiguous there.
struct Crossing {
  std::string tensor;
  size_t axis = 0;      // of the stage: the last dim of the tensor
  size_t last_dim = 0;  // of the tensor: where the stage's last axis is
};

std::optional<Crossing> crossing_of(const te::Compute& c, const Expr& read) {
  Crossing found{read->name, 0, 0};
  bool has_last = false;
  for (size_t d = 0; d < read->args.size(); ++d) {
    if (!read.arg(d).is_var()) return std::nullopt;
    const auto axis = std::ranges::find(c.axes, read.arg(d)->name, &te::Axis::name);
    if (axis == c.axes.end()) return std::nullopt;
    const auto a = static_cast<size_t>(axis - c.axes.begin());
    if (d + 1 == read->args.size()) found.axis = a;
    if (a + 1 == c.axes.size()) {
      found.last_dim = d;
      has_last = true;
    }
  }
  return has_last && found.axis + 1 < c.axes.size() ? std::optional(found) : std::nullopt;
}

// One side of a tile.
struct Side {
  std::string loop;
  int64_t extent = 0;
};

// Rows of a tile, dealt to threads that stand side by side along its lines.
void cut_tile(schedule::Schedule& s, const std::string& stage, const Side& rows, const Side& line) {
  const int64_t threads = std::min(kTileThreads / line.extent, rows.extent);
  s.split(stage, rows.loop, {threads});
  s.reorder(stage, {rows.loop + ".1", line.loop, rows.loop + ".0"});
  s.threads(stage, rows.loop + ".1").threads(stage, line.loop);
  if (rows.extent / threads <= kMostUnrolled) s.unroll(stage, rows.loop + ".0");
}

// Elements of a tile along an axis: a line, or what the axis has.
int64_t side_of(const te::Axis& axis, DataType type) {
  const int64_t line = std::clamp<int64_t>(kLine / type.bytes(), 32, 64);
  return std::min(line, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(axis.extent))));
}

}  // namespace

Result<Candidates> construct_block_transpose(const GroupTask& task, const TargetInfo&) {
  Construction out;
  const te::Program program = schedule::inline_stages(out.schedule, task.program);
  if (program.computes.size() != 1) return declined("several stages");
  const te::Compute& c = program.computes.front();
  if (c.is_reduction() || c.outputs.size() != 1 || c.axes.size() < 2)
    return declined("no element-wise stage of a matrix");
  std::vector<Crossing> crossings;
  bool differ = false;
  te::visit_reads(c, [&](const Expr& read) {
    const std::optional<Crossing> found = crossing_of(c, read);
    if (!found) return;
    for (const Crossing& other : crossings) {
      differ = differ || other.axis != found->axis || other.tensor == found->tensor;
    }
    crossings.push_back(*found);
  });
  if (crossings.empty()) return declined("no read across the output's order");
  if (differ) return declined("reads across the output's order along different axes, or twice");
  const te::Axis& other = c.axes[crossings[0].axis];
  const Side across{other.name + ".1", side_of(other, c.outputs[0].type)};
  const Side last{c.axes.back().name + ".1", side_of(c.axes.back(), c.outputs[0].type)};
  if (std::min(across.extent, last.extent) < kLeastSide) return declined("smaller than a tile");

  schedule::Schedule& s = out.schedule;
  for (const Crossing& x : crossings) s.cache_read(x.tensor, {});
  s.split(c.name(), other.name, {across.extent}).split(c.name(), c.axes.back().name, {last.extent});
  std::vector<std::string> tiles;
  for (const te::Axis& axis : c.axes)
    tiles.push_back(axis.name == other.name || axis.name == c.axes.back().name ? axis.name + ".0" : axis.name);
  s.reorder(c.name(), joined(tiles, std::vector{across.loop, last.loop})).parallel(c.name(), tiles);
  for (const Crossing& x : crossings) {
    s.compute_at(x.tensor + ".cache", c.name(), tiles.back(), loop::Scope::kStack, 1);
    const size_t rank = program.tensor(x.tensor).shape.size();
    cut_tile(s, x.tensor + ".cache", {fmt::format("i{}", x.last_dim), last.extent},
             {fmt::format("i{}", rank - 1), across.extent});
  }
  cut_tile(s, c.name(), across, last);
  out.trace = {fmt::format("tiles of {} x {} elements through shared memory", across.extent, last.extent)};
  return Candidates{std::move(out)};
}

}  // namespace tw::tune
