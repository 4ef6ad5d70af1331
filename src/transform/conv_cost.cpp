#include "transform/conv_cost.h"

#include <algorithm>

#include "core/model_units.h"
#include "ops/window.h"
#include "support/math.h"

namespace tw::transform {
namespace {

constexpr int64_t kAlgorithms[] = {4, 2};  // tile sizes; 0 is the direct algorithm
constexpr double kWorthIt = 0.95;          // of the direct time: what the model cannot tell stays direct
constexpr int64_t kMinChannels = 8;        // fewer are not worth it
constexpr int64_t kElement = 4;            // bytes
constexpr double kDirectLoss = 1.05;       // over the peak rate: edges, tails, entering tiles
constexpr double kProductsLoss = 1.15;     // the same of Winograd's products, whose blocks are smaller
constexpr double kStepsLost = 4;           // reduction steps lost when a tile of products is entered and left
constexpr double kCacheShare = 0.7;        // of L2 that the transformed input of a tile may fill
constexpr double kExposedLine = 0.5;       // of the latency of a line of the shared cache that is read by itself
constexpr double kReached = 0.5;           // share of the read rate of a memory that weights reach beside arithmetic
constexpr double kSerial = 0.2;  // share of the shorter of two activities that does not overlap the longer one

// Issue cycles are vector multiply-adds.
double arithmetic_cycles(const ConvProblem& p, int64_t m, double lanes) {
  const auto pairs = static_cast<double>(p.channels * p.out_channels * p.kernel_depth);
  if (m == 0) return kDirectLoss * 9 * pairs * static_cast<double>(p.batch * p.out_depth * p.high * p.wide) / lanes;
  const auto plane = static_cast<double>(p.batch * ceil_div(p.high, m) * ceil_div(p.wide, m));
  const auto points = static_cast<double>((m + 2) * (m + 2));
  const double lost = 1 + kStepsLost / static_cast<double>(p.channels * p.kernel_depth);
  const double products = kProductsLoss * lost * pairs * static_cast<double>(p.out_depth);
  const double transforms = kWinogradInputCycles * static_cast<double>(p.channels * p.depth) +
                            kWinogradOutputCycles * static_cast<double>(p.out_channels * p.out_depth);
  return points * plane * (products + transforms) / lanes;
}

const MemoryLevel& shared_cache(const TargetInfo& target) { return target.levels.at(target.levels.size() - 2); }

// Bytes of one tile's transformed input.
double tile_bytes(const ConvProblem& p, int64_t m) {
  return static_cast<double>(kElement * (m + 2) * (m + 2) * p.channels);
}
double tiles_of(const ConvProblem& p, int64_t m) {
  return static_cast<double>(p.batch * ceil_div(p.high, m) * ceil_div(p.wide, m) * p.depth);
}

// The transform writes all points of a tile together, the products read one point of all tiles: lines by themselves.
// Time when they are written to and, for every filter position, read from the shared cache.
double scattered_ns(const ConvProblem& p, int64_t m, const TargetInfo& target) {
  const double lines = tiles_of(p, m) * tile_bytes(p, m) / static_cast<double>(line_bytes(target));
  return lines * static_cast<double>(1 + p.kernel_depth) * kExposedLine * shared_cache(target).latency_ns /
         std::max(1, target.compute_units);
}

// Blocks of tiles, each with all depths since these share their input, whose transformed input stays in L2: images,
// rows of tiles or equal parts of a row; none when a single tile does not stay.
std::optional<double> near_blocks(const ConvProblem& p, int64_t m, const TargetInfo& target) {
  const int64_t high = ceil_div(p.high, m), wide = ceil_div(p.wide, m);
  const int64_t images = p.batch * (p.kernel_depth > 1 ? 1 : p.depth);
  const double depths = p.kernel_depth > 1 ? static_cast<double>(p.depth) : 1;
  const double share = kCacheShare * static_cast<double>(target.levels[1].capacity_bytes);
  const auto max = static_cast<int64_t>(share / (depths * tile_bytes(p, m)));
  if (max < 1) return std::nullopt;
  if (max >= high * wide) return static_cast<double>(ceil_div(images, max / (high * wide)));
  const auto parts = [&](int64_t extent, int64_t unit) {
    int64_t n = 1;
    while (n < extent && (extent % n != 0 || extent / n * unit > max)) ++n;
    return n;
  };
  const int64_t blocks = max >= wide ? parts(high, wide) : high * parts(wide, 1);
  return static_cast<double>(images * blocks);
}

double weights_ns(double bytes, WeightsHome home, const TargetInfo& target) {
  const MemoryLevel& from = home == WeightsHome::kMemory ? target.levels.back() : shared_cache(target);
  return bytes / (kReached * from.all_per_ns);
}

// Of computed weights: a dozen small steps, and what these read and write.
constexpr double kTransformSteps = 15'000;  // ns
double transform_ns(const ConvProblem& p, int64_t m, const TargetInfo& target) {
  if (m == 0 || !p.computed_weights) return 0;
  const auto bytes = static_cast<double>(6 * conv_weight_bytes(p, 0) + 3 * conv_weight_bytes(p, m));
  return kTransformSteps + bytes / shared_cache(target).all_per_ns;
}

double overlapped(double a, double b) { return std::max(a, b) + kSerial * std::min(a, b); }

}  // namespace

int64_t conv_weight_bytes(const ConvProblem& p, int64_t m) {
  const int64_t points = m == 0 ? 9 : (m + 2) * (m + 2);
  return kElement * points * p.channels * p.out_channels * p.kernel_depth;
}

double conv_ns(const ConvProblem& p, int64_t m, WeightsHome home, const TargetInfo& target) {
  const double lanes = std::max(1, target.lanes(DataType::f32()));
  const double arithmetic =
      arithmetic_cycles(p, m, lanes) * 2 * lanes / target.flop_per_ns / std::max(1, target.compute_units);
  const auto weights = static_cast<double>(conv_weight_bytes(p, m));
  const double reading = weights_ns(weights, home, target);
  const double transform = transform_ns(p, m, target);
  if (m == 0 || target.levels.size() < 4) return transform + overlapped(arithmetic, reading);
  // Either the tiles lie in the shared cache, or its weights pass by for each block of tiles that stays nearer.
  const double spread = transform + overlapped(arithmetic, reading) + scattered_ns(p, m, target);
  const std::optional<double> blocks = near_blocks(p, m, target);
  if (!blocks) return spread;
  const bool stay = weights <= kCacheShare * static_cast<double>(target.levels[1].capacity_bytes);
  const double passing = stay ? 0 : *blocks * weights / shared_cache(target).all_per_ns;
  return std::min(spread, transform + overlapped(arithmetic, std::max(reading, passing)));
}

bool times_convolutions(const TargetInfo& target) {
  const size_t levels = target.levels.size();
  return target.kind == DeviceKind::kCpu && target.flop_per_ns > 0 && levels > 1 &&
         target.levels[levels - 1].all_per_ns > 0 && target.levels[levels - 2].all_per_ns > 0;
}

std::optional<ConvProblem> winograd_problem(const Editor& editor, const Node& node, const TargetInfo& target) {
  const graph::Value& weights = editor.value(node.inputs[1]);
  const Shape& w = weights.type.shape;
  const size_t rank = w.size() - 2;
  if (weights.type.type != DataType::f32() || node.int_attr_or("group", 1) != 1) return std::nullopt;
  if (rank < 2 || rank > 3 || w[rank] != 3 || w[rank + 1] != 3) return std::nullopt;
  const ops::Window window = ops::window_of(graph::make_call(editor.graph(), node), Shape(w.begin() + 2, w.end()));
  for (size_t d = rank - 2; d < rank; ++d) {
    if (window.strides[d] != 1 || window.dilations[d] != 1) return std::nullopt;
  }
  ConvProblem p{.batch = editor.type(node.inputs[0]).shape[0], .channels = w[1], .out_channels = w[0]};
  p.high = window.out[rank - 2];
  p.wide = window.out[rank - 1];
  p.computed_weights = !weights.is_constant();
  if (rank == 3) {
    p.depth = std::max(window.highest(0), window.in[0] - 1) - std::min<int64_t>(0, window.lowest(0)) + 1;
    p.out_depth = window.out[0];
    p.kernel_depth = w[2];
  }
  const bool empty = p.batch == 0 || p.high == 0 || p.wide == 0 || p.out_depth == 0;
  const bool flat = rank == 3 && (p.depth == 1) != (p.out_depth == 1);
  const int64_t min = std::max<int64_t>(kMinChannels, target.lanes(DataType::f32()));
  const bool narrow = p.channels < min || p.out_channels < min;
  return empty || flat || narrow ? std::nullopt : std::optional(p);
}

int64_t best_algorithm(const ConvProblem& problem, WeightsHome home, const TargetInfo& target) {
  int64_t best = 0;
  double min = kWorthIt * conv_ns(problem, 0, home, target);
  for (const int64_t m : kAlgorithms) {
    // Tiles of one row or one column are no matrix, and mostly multiplications by padding.
    if (problem.high <= m || problem.wide <= m) continue;
    const double ns = conv_ns(problem, m, home, target);
    if (ns >= min) continue;
    best = m;
    min = ns;
  }
  return best;
}

}  // namespace tw::transform
