#include "transform/conv_cost.h"

#include <algorithm>

#include "support/math.h"

namespace tw::transform {
namespace {

constexpr int64_t kElement = 4;         // bytes
constexpr double kDirectLoss = 1.05;    // over the peak rate: edges, tails, entering tiles
constexpr double kProductsLoss = 1.15;  // the same of Winograd's products, whose blocks are smaller
constexpr double kInputSlots = 7;       // issue slots of one vector of one point of an input tile
constexpr double kOutputSlots = 9;      // the same of an output tile
constexpr double kStepsLost = 4;        // reduction steps lost when a tile of products is entered and left
constexpr double kExposedCache = 0.6;   // share of reading weights that is not hidden behind arithmetic
constexpr double kExposedMemory = 0.8;
constexpr double kFallbackFlopPerNs = 50;  // of targets that were not measured
constexpr double kFallbackBytesPerNs = 20;

// Issue slots are vector multiply-adds.
double arithmetic_slots(const ConvProblem& p, int64_t m, double lanes) {
  const auto pairs = static_cast<double>(p.channels * p.out_channels * p.taps);
  if (m == 0) return kDirectLoss * 9 * pairs * static_cast<double>(p.batch * p.out_depth * p.high * p.wide) / lanes;
  const auto plane = static_cast<double>(p.batch * ceil_div(p.high, m) * ceil_div(p.wide, m));
  const auto points = static_cast<double>((m + 2) * (m + 2));
  const double lost = 1 + kStepsLost / static_cast<double>(p.channels * p.taps);
  const double products = kProductsLoss * lost * pairs * static_cast<double>(p.out_depth);
  const double transforms = kInputSlots * static_cast<double>(p.channels * p.depth) +
                            kOutputSlots * static_cast<double>(p.out_channels * p.out_depth);
  return points * plane * (products + transforms) / lanes;
}

double bytes_per_ns(WeightsHome home, const TargetInfo& target) {
  const auto count = static_cast<int64_t>(target.levels.size());
  const int64_t level = home == WeightsHome::kMemory ? count - 1 : count - 2;
  if (level < 0 || target.levels[level].all_per_ns <= 0) return kFallbackBytesPerNs;
  return target.levels[level].all_per_ns;
}

}  // namespace

int64_t conv_weight_bytes(const ConvProblem& p, int64_t m) {
  const int64_t points = m == 0 ? 9 : (m + 2) * (m + 2);
  return kElement * points * p.channels * p.out_channels * p.taps;
}

double conv_ns(const ConvProblem& p, int64_t m, WeightsHome home, const TargetInfo& target) {
  const double lanes = std::max(1, target.lanes(DataType::f32()));
  const double peak = target.flop_per_ns > 0 ? target.flop_per_ns : kFallbackFlopPerNs;
  const double arithmetic = arithmetic_slots(p, m, lanes) * 2 * lanes / peak / std::max(1, target.units);
  const double exposed = home == WeightsHome::kMemory ? kExposedMemory : kExposedCache;
  return arithmetic + exposed * static_cast<double>(conv_weight_bytes(p, m)) / bytes_per_ns(home, target);
}

}  // namespace tw::transform
