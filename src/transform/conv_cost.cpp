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
  return std::max(arithmetic, reading) + kSerial * std::min(arithmetic, reading);
}

}  // namespace tw::transform
