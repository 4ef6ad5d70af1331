#include "cost/layouts.h"

#include <numeric>

#include "cost/units.h"
#include "support/math.h"

namespace tw::cost {
namespace {

constexpr int64_t kTilePixels = 6;   // rows of a register tile
constexpr int64_t kTileVectors = 2;  // columns of a register tile

double or_nominal(double figure) { return figure > 0 ? figure : kNominalBytesPerNs; }

double as_double(int64_t x) { return static_cast<double>(x); }

// Of the nearest level that holds `bytes`, or the last one.
double rate(double bytes, double MemoryLevel::*figure, const TargetInfo& target) {
  const auto holds = [&](const MemoryLevel& level) { return bytes <= kCacheShare * as_double(level.capacity_bytes); };
  if (target.levels.empty()) return kNominalBytesPerNs;
  const auto level = std::ranges::find_if(target.levels, holds);
  return or_nominal((level == target.levels.end() ? target.levels.back() : *level).*figure);
}

// `bytes` read and as many written, in the same order.
double copy_ns(double bytes, const TargetInfo& target) {
  return 2 * bytes / rate(2 * bytes, &MemoryLevel::copy_per_ns, target) + target.barrier_ns;
}

double read_ns(double bytes, const TargetInfo& target) {
  return bytes / rate(bytes, &MemoryLevel::read_per_ns, target);
}

// Whether lines `stride` lines apart, `count` of them, stay in a cache together: they share some of its sets.
bool holds_lines(const MemoryLevel& level, int64_t stride, int64_t count) {
  const int64_t ways = std::max(1, level.ways);
  const int64_t sets = std::max<int64_t>(1, level.capacity_bytes / (std::max<int64_t>(1, level.line_bytes) * ways));
  return count <= sets / std::gcd(std::max<int64_t>(1, stride), sets) * ways / 2;
}

// A contraction that reads its pixels from planes touches one line for each channel of a register tile: streams too
// many for prefetching. Where the lines of all channels do not stay in the first cache together, each visit brings them
// in again from the nearest level in which they do.
double scattered_rows_ns(const SpatialProblem& p, const TargetInfo& target) {
  if (target.levels.size() < 2) return 0;
  const int64_t line = std::max<int64_t>(1, target.levels.front().line_bytes);
  const int64_t plane_lines = static_cast<int64_t>(p.in_bytes) / (p.batch * p.groups * p.channels) / line;
  const double streamed = read_ns(p.in_bytes, target);
  size_t home = 0;
  while (home + 1 < target.levels.size() && !holds_lines(target.levels[home], plane_lines, p.channels)) ++home;
  if (home == 0) return streamed;
  const double tiles = as_double(p.batch * ceil_div(p.points, kTilePixels) *
                                 ceil_div(p.out_channels, kTileVectors * p.lanes) * p.groups);
  const double bytes = tiles * as_double(p.channels * p.filter_positions * line);
  return std::max(streamed, kExposedRows * bytes / or_nominal(target.levels[home].read_per_ns));
}

// Threads gather pixels for each filter position anew, padding on the way: from planes one element at a time.
double gathered_from_planes_ns(const SpatialProblem& p, const TargetInfo& target) {
  return conversion_ns(p.in_bytes * as_double(p.filter_positions * p.points) / as_double(std::max<int64_t>(1, p.plane)),
                       target);
}

// Channels last: vectors along the output channels, pixels read as scalars from anywhere, padding in a copy that brings
// its own order. Row-major: vectors along rows of the image; a product with the weights where rows are all one, its
// second operand copied to panels, one by one.
double dense_ns(const SpatialProblem& p, int in, int out, const TargetInfo& target) {
  const double steps = as_double(p.channels * p.filter_positions);
  if (out == 1) {
    // Narrow groups share vectors of a GPU's tile, not those of a CPU.
    const int64_t vectors = target.kind == DeviceKind::kCpu ? p.groups * ceil_div(p.out_channels, p.lanes)
                                                            : ceil_div(p.groups * p.out_channels, p.lanes);
    const double sums = as_double(p.batch * p.points * vectors) * steps * issue_cycle_ns(target, p.lanes) / kDenseShare;
    const double from_planes = conversion_ns(p.in_bytes, target) * (p.short_rows ? kShortLines : 1);
    // Of an odd number of channels threads gather single elements from either order.
    if (target.kind != DeviceKind::kCpu)
      return sums + (in == 0 && p.channels % 2 == 0 ? gathered_from_planes_ns(p, target) : 0);
    const double pad = !p.padded ? 0 : in == 0 ? from_planes : copy_ns(p.in_bytes, target);
    return sums + pad + (in == 0 && !p.padded ? scattered_rows_ns(p, target) : 0);
  }
  const int64_t row_vectors =
      p.pointwise ? ceil_div(p.points, p.lanes) : p.points / p.width * ceil_div(p.width, p.lanes);
  const auto weights_stay = [&](size_t level) {
    return level < target.levels.size() &&
           p.weight_bytes <= kCacheShare * as_double(target.levels[level].capacity_bytes);
  };
  double share = p.strided ? kStridedShare : kRowShare;
  if (p.pointwise && weights_stay(1)) share = weights_stay(0) ? kDenseShare : kPanelShare;
  const double sums =
      as_double(p.batch * p.groups * p.out_channels * row_vectors) * steps * issue_cycle_ns(target, p.lanes) / share;
  if (!p.pointwise) return sums + (p.padded ? copy_ns(p.in_bytes, target) : 0);
  return sums + read_ns(p.in_bytes, target);
}

// One window for each element: poolings too. The guards of padding stand in the loops.
double depthwise_ns(const SpatialProblem& p, int out, const TargetInfo& target) {
  const double windows = as_double(p.batch) * as_double(p.filter_positions) * issue_cycle_ns(target, p.lanes);
  if (out == 1) return windows * kPositionCycles * as_double(p.points * ceil_div(p.groups * p.out_channels, p.lanes));
  if (target.kind != DeviceKind::kCpu)  // threads read elements of rows, which start anywhere, one by one
    return windows * kPositionCycles * as_double(p.points * p.groups * p.out_channels);
  const double edges = (p.padded ? 1 : 0) * (p.strided ? kStridedEdgeCycles : 2 * kEdgePositionCycles);
  const double row =
      as_double(ceil_div(p.width, p.lanes)) * (p.strided ? kStridedPositionCycles : kPositionCycles) + edges;
  const double rows = as_double(p.groups * p.out_channels * (p.points / std::max<int64_t>(1, p.width)));
  return windows * rows * row * (p.width < p.lanes ? kShortRow : 1);
}

}  // namespace

double conversion_ns(double bytes, const TargetInfo& target) {
  return (copy_ns(bytes, target) - target.barrier_ns) / kConversionShare + target.barrier_ns;
}

OrderCosts spatial_ns(const SpatialProblem& p, const TargetInfo& target) {
  OrderCosts costs{};
  if (p.batch * p.points * p.groups == 0) return costs;
  const double read = conversion_ns(p.in_bytes, target);
  const double write = conversion_ns(p.out_bytes, target);
  if (p.is_winograd) return {{{read + write, read}, {write, 0}}};  // transforms convert as a copy does
  const bool is_window = !p.is_contraction || (p.channels == 1 && p.groups > 1);
  for (const int out : {0, 1}) {
    for (const int in : {0, 1})
      costs[in][out] = is_window ? depthwise_ns(p, out, target) : dense_ns(p, in, out, target);
  }
  if (is_window)
    costs[0][1] += target.kind == DeviceKind::kCpu ? kWindowReads * read : gathered_from_planes_ns(p, target);
  costs[1][0] += 2 * read;  // vectors along rows of what is stored channels last: worse than a copy
  return costs;
}

}  // namespace tw::cost
