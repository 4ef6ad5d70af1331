#include "driver/machine/bounds.h"

#include <fmt/format.h>

#include <cmath>

namespace tw::driver::machine {
namespace {

// Far beyond any machine on both sides: only what went wrong lies outside.
struct Range {
  double min;
  double max;
  bool holds(double value) const { return std::isfinite(value) && value >= min && value <= max; }
};
constexpr Range kLatencyNs = {0.05, 100'000};
constexpr Range kBytesPerNs = {0.001, 1'000'000};
constexpr Range kFlopPerNs = {0.01, 10'000'000};
constexpr Range kClockGhz = {0.1, 20};
constexpr Range kRegionNs = {0.5, 100'000};

enum class Outwards : uint8_t { kFalls, kRises };  // from the nearest level to DRAM

struct LevelParameter {
  double MemoryLevel::*field;
  Range range;
  Outwards outwards;
};
constexpr LevelParameter kLevelParameters[] = {
    {&MemoryLevel::latency_ns, kLatencyNs, Outwards::kRises},
    {&MemoryLevel::read_per_ns, kBytesPerNs, Outwards::kFalls},
    {&MemoryLevel::write_per_ns, kBytesPerNs, Outwards::kFalls},
    {&MemoryLevel::copy_per_ns, kBytesPerNs, Outwards::kFalls},
};

double in_range(double value, const Range& range, double otherwise) { return range.holds(value) ? value : otherwise; }

// `value` if it is in order behind `nearer`, else the default if that is, else `nearer`.
double in_order(double value, double otherwise, double nearer, Outwards outwards) {
  const auto ordered = [&](double v) { return outwards == Outwards::kFalls ? v <= nearer : v >= nearer; };
  return ordered(value) ? value : ordered(otherwise) ? otherwise : nearer;
}

// The default level that stands for level `l` of `count`: DRAM for the last one.
const MemoryLevel& default_level(const TargetInfo& defaults, size_t l, size_t count) {
  const std::vector<MemoryLevel>& levels = defaults.levels;
  return l + 1 == count ? levels.back() : levels[std::min(l, levels.size() - std::min<size_t>(levels.size(), 2))];
}

void fix_chunks(MemoryLevel& level, const MemoryLevel& otherwise, const MemoryLevel* nearer) {
  for (size_t c = 0; c < level.chunks.size(); ++c) {
    double& value = level.chunks[c].bytes_per_ns;
    const double fallback = c < otherwise.chunks.size() ? otherwise.chunks[c].bytes_per_ns : level.read_per_ns;
    value = std::min(in_range(value, kBytesPerNs, fallback), level.read_per_ns);
    if (nearer != nullptr && c < nearer->chunks.size()) value = std::min(value, nearer->chunks[c].bytes_per_ns);
    value = two_digits(value);
  }
}

// What all compute units do where that could not be measured: as much more than one as by default.
double all_by_default(double one, double default_one, double default_all) {
  return default_one > 0 ? one * default_all / default_one : one;
}

void fix_level(MemoryLevel& level, const MemoryLevel& otherwise, const MemoryLevel* nearer) {
  for (const LevelParameter& parameter : kLevelParameters) {
    double& value = level.*parameter.field;
    const double fallback = otherwise.*parameter.field;
    value = in_range(value, parameter.range, fallback);
    if (nearer != nullptr) value = in_order(value, fallback, nearer->*parameter.field, parameter.outwards);
    value = two_digits(value);
  }
  const double all = all_by_default(level.read_per_ns, otherwise.read_per_ns, otherwise.all_per_ns);
  level.all_per_ns = in_range(level.all_per_ns, kBytesPerNs, all);
  if (nearer != nullptr) level.all_per_ns = in_order(level.all_per_ns, all, nearer->all_per_ns, Outwards::kFalls);
  level.all_per_ns = std::max(two_digits(level.all_per_ns), level.read_per_ns);
  fix_chunks(level, otherwise, nearer);
}

void fix_peaks(TargetInfo& info, const TargetInfo& defaults) {
  for (size_t w = 0; w < info.peaks.size(); ++w) {
    VectorPeak& peak = info.peaks[w];
    const VectorPeak& otherwise = defaults.peaks[std::min(w, defaults.peaks.size() - 1)];
    peak.flop_per_ns = two_digits(in_range(peak.flop_per_ns, kFlopPerNs, otherwise.flop_per_ns));
    const double all = all_by_default(peak.flop_per_ns, otherwise.flop_per_ns, otherwise.all_flop_per_ns);
    peak.all_flop_per_ns = std::max(two_digits(in_range(peak.all_flop_per_ns, kFlopPerNs, all)), peak.flop_per_ns);
    peak.clock_ghz = two_digits(in_range(peak.clock_ghz, kClockGhz, otherwise.clock_ghz));
  }
  if (info.peaks.empty()) info.peaks = defaults.peaks;
  info.flop_per_ns = info.peaks.back().flop_per_ns;
}

}  // namespace

double two_digits(double value) { return std::stod(fmt::format("{:.1e}", value)); }

TargetInfo plausible(const TargetInfo& measured, const TargetInfo& defaults) {
  TargetInfo info = measured;
  if (info.levels.empty()) info.levels = defaults.levels;
  for (size_t l = 0; l < info.levels.size(); ++l)
    fix_level(info.levels[l], default_level(defaults, l, info.levels.size()), l == 0 ? nullptr : &info.levels[l - 1]);
  fix_peaks(info, defaults);
  info.fork_join_ns = two_digits(in_range(info.fork_join_ns, kRegionNs, defaults.fork_join_ns));
  info.barrier_ns = two_digits(in_range(info.barrier_ns, kRegionNs, defaults.barrier_ns));
  return info;
}

DeviceRates plausible(const DeviceRates& measured) {
  const auto three_digits = [](double value, const Range& range) {
    return range.holds(value) ? std::stod(fmt::format("{:.2e}", value)) : 0;
  };
  DeviceRates rates = measured;
  for (LevelRates& level : rates.levels) {
    for (double* rate : {&level.read_per_ns, &level.write_per_ns, &level.copy_per_ns})
      *rate = three_digits(*rate, kBytesPerNs);
  }
  for (TypePeak& peak : rates.peaks) peak.op_per_ns = three_digits(peak.op_per_ns, kFlopPerNs);
  rates.launch_ns = three_digits(rates.launch_ns, kRegionNs);
  return rates;
}

}  // namespace tw::driver::machine
