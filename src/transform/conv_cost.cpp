#include "transform/conv_cost.h"

#include <algorithm>

#include "core/model_units.h"
#include "support/math.h"

namespace tw::transform {
namespace {

constexpr int64_t kElement = 4;         // bytes
constexpr double kDirectLoss = 1.05;    // over the peak rate: edges, tails, entering tiles
constexpr double kProductsLoss = 1.15;  // the same of Winograd's products, whose blocks are smaller
constexpr double kStepsLost = 4;        // reduction steps lost when a tile of products is entered and left
constexpr double kCacheShare = 0.7;     // of the second cache that the transformed input of a tile may fill
constexpr double kExposedLine = 0.5;    // of the latency of a line of the shared cache that is read by itself
constexpr double kReached = 0.5;        // share of the read rate of a memory that weights reach beside arithmetic
constexpr double kSerial = 0.2;         // share of the shorter of two activities that does not overlap the longer one

// Issue slots are vector multiply-adds.
double arithmetic_slots(const ConvProblem& p, int64_t m, double lanes) {
  const auto pairs = static_cast<double>(p.channels * p.out_channels * p.taps);
  if (m == 0) return kDirectLoss * 9 * pairs * static_cast<double>(p.batch * p.out_depth * p.high * p.wide) / lanes;
  const auto plane = static_cast<double>(p.batch * ceil_div(p.high, m) * ceil_div(p.wide, m));
  const auto points = static_cast<double>((m + 2) * (m + 2));
  const double lost = 1 + kStepsLost / static_cast<double>(p.channels * p.taps);
  const double products = kProductsLoss * lost * pairs * static_cast<double>(p.out_depth);
  const double transforms = kWinogradInputSlots * static_cast<double>(p.channels * p.depth) +
                            kWinogradOutputSlots * static_cast<double>(p.out_channels * p.out_depth);
  return points * plane * (products + transforms) / lanes;
}

// The transform writes all points of a tile together, the products read one point of all tiles: lines by themselves.
// They come from the second cache while the least block fits it, which is a tile of all depths that share its input;
// else each is written to and, for every tap, read from the shared cache.
double scattered_ns(const ConvProblem& p, int64_t m, const TargetInfo& target) {
  const auto count = target.levels.size();
  if (m == 0 || count < 4) return 0;
  const auto tile = static_cast<double>(kElement * (m + 2) * (m + 2) * p.channels);
  const double block = tile * static_cast<double>(p.taps > 1 ? p.depth : 1);
  if (block <= kCacheShare * static_cast<double>(target.levels[1].capacity_bytes)) return 0;
  const double tiles = static_cast<double>(p.batch * ceil_div(p.high, m) * ceil_div(p.wide, m) * p.depth);
  const double lines = tiles * tile / static_cast<double>(line_bytes(target));
  return lines * static_cast<double>(1 + p.taps) * kExposedLine * target.levels[count - 2].latency_ns /
         std::max(1, target.units);
}

double weights_ns(double bytes, WeightsHome home, const TargetInfo& target) {
  const size_t back = home == WeightsHome::kMemory ? 1 : 2;
  return bytes / (kReached * target.levels.at(target.levels.size() - back).all_per_ns);
}

}  // namespace

int64_t conv_weight_bytes(const ConvProblem& p, int64_t m) {
  const int64_t points = m == 0 ? 9 : (m + 2) * (m + 2);
  return kElement * points * p.channels * p.out_channels * p.taps;
}

double conv_ns(const ConvProblem& p, int64_t m, WeightsHome home, const TargetInfo& target) {
  const double lanes = std::max(1, target.lanes(DataType::f32()));
  const double arithmetic = arithmetic_slots(p, m, lanes) * 2 * lanes / target.flop_per_ns / std::max(1, target.units);
  const double reading = weights_ns(static_cast<double>(conv_weight_bytes(p, m)), home, target);
  return std::max(arithmetic, reading) + kSerial * std::min(arithmetic, reading) + scattered_ns(p, m, target);
}

}  // namespace tw::transform
