#include "driver/machine/latency.h"

#include "driver/machine/kernels.h"

namespace tw::driver::machine {
namespace {

constexpr int64_t kSmallest = 8 * 1024;
constexpr int64_t kSmallestFootprint = 16 * 1024;
constexpr double kStep = 1.33;    // a latency that much above the plateau is another level's
constexpr double kClimb = 1.12;   // from one point to the next: the curve still rises
constexpr double kAgreement = 2;  // of claimed and detected capacity: replacement policies blur the step
constexpr int64_t kWordsInLine = kLineBytes / 8;

}  // namespace

void write_chase(int64_t* next, int64_t lines) {
  const auto m = static_cast<double>(lines);
  const int64_t a = (12 * static_cast<int64_t>(m * 0.618 / 12) + 1) % lines;
  const int64_t c = (6 * static_cast<int64_t>(m * 0.29 / 6) + 1) % lines;
  int64_t to = c;
  for (int64_t i = 0; i < lines; ++i) {
    next[i * kWordsInLine] = to * kWordsInLine;
    to += a;
    if (to >= lines) to -= lines;
  }
}

std::vector<int64_t> curve_footprints(int64_t limit) {
  std::vector<int64_t> footprints;
  for (int64_t bytes = kSmallest; bytes <= limit; bytes *= 2) {
    footprints.push_back(bytes);
    if (bytes + bytes / 2 <= limit) footprints.push_back(bytes + bytes / 2);
  }
  return footprints;
}

int64_t round_footprint(double bytes) {
  int64_t best = kSmallestFootprint;
  for (int64_t power = kSmallestFootprint; static_cast<double>(power) <= bytes; power *= 2)
    best = static_cast<double>(power + power / 2) <= bytes ? power + power / 2 : power;
  return best;
}

std::vector<int64_t> detect_capacities(std::span<const LatencyPoint> curve) {
  std::vector<int64_t> capacities;
  if (curve.empty()) return capacities;
  double plateau = curve[0].ns;
  for (size_t i = 1; i < curve.size(); ++i) {
    const bool stays = i + 1 == curve.size() || curve[i + 1].ns > kStep * plateau;
    if (curve[i].ns <= kStep * plateau || !stays) continue;
    capacities.push_back(curve[i - 1].bytes);
    while (i + 1 < curve.size() && curve[i + 1].ns > kClimb * curve[i].ns) ++i;
    plateau = curve[i].ns;
  }
  return capacities;
}

std::vector<int64_t> reconcile_capacities(const std::vector<int64_t>& claimed, const std::vector<int64_t>& detected) {
  if (claimed.empty()) return detected;
  if (claimed.size() != detected.size()) return claimed;
  std::vector<int64_t> result;
  for (size_t l = 0; l < claimed.size(); ++l) {
    const double ratio = static_cast<double>(claimed[l]) / static_cast<double>(detected[l]);
    result.push_back(ratio <= kAgreement && ratio >= 1 / kAgreement ? claimed[l] : detected[l]);
  }
  return result;
}

}  // namespace tw::driver::machine
