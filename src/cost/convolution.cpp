#include "cost/convolution.h"

#include "cost/units.h"
#include "support/math.h"

namespace tw::cost {
namespace {

constexpr int64_t kAlgorithms[] = {4, 2};  // tile sizes; 0 is the direct algorithm
constexpr int64_t kElement = 4;            // bytes

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
  const double share = kTransformedShare * static_cast<double>(target.levels[1].capacity_bytes);
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
  return bytes / (kWeightsReached * from.all_per_ns);
}

// Of computed weights: a dozen small steps, and what these read and write.
double transform_ns(const ConvProblem& p, int64_t m, const TargetInfo& target) {
  if (m == 0 || !p.computed_weights) return 0;
  const auto bytes = static_cast<double>(6 * conv_weight_bytes(p, 0) + 3 * conv_weight_bytes(p, m));
  return kTransformStepsNs + bytes / shared_cache(target).all_per_ns;
}

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
  if (m == 0 || target.levels.size() < 4) return transform + overlapped(arithmetic, reading, kSerial);
  // Either the tiles lie in the shared cache, or its weights pass by for each block of tiles that stays nearer.
  const double spread = transform + overlapped(arithmetic, reading, kSerial) + scattered_ns(p, m, target);
  const std::optional<double> blocks = near_blocks(p, m, target);
  if (!blocks) return spread;
  const bool stay = weights <= kTransformedShare * static_cast<double>(target.levels[1].capacity_bytes);
  const double passing = stay ? 0 : *blocks * weights / shared_cache(target).all_per_ns;
  return std::min(spread, transform + overlapped(arithmetic, std::max(reading, passing), kSerial));
}

bool times_convolutions(const TargetInfo& target) {
  const size_t levels = target.levels.size();
  return target.kind == DeviceKind::kCpu && target.flop_per_ns > 0 && levels > 1 &&
         target.levels[levels - 1].all_per_ns > 0 && target.levels[levels - 2].all_per_ns > 0;
}

int64_t best_algorithm(const ConvProblem& problem, WeightsHome home, const TargetInfo& target) {
  int64_t best = 0;
  double min = kAlgorithmWorthIt * conv_ns(problem, 0, home, target);
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

}  // namespace tw::cost
