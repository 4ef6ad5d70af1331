#include "driver/artefact/step_order.h"

#include <algorithm>

namespace tw::driver {
namespace {

bool conflict(const MemoryAccess& a, const MemoryAccess& b) {
  return (a.writes || b.writes) && a.memory == b.memory && a.begin < b.end && b.begin < a.end;
}

bool conflict(const std::vector<MemoryAccess>& a, const std::vector<MemoryAccess>& b) {
  return std::ranges::any_of(a, [&](const MemoryAccess& of_a) {
    return std::ranges::any_of(b, [&](const MemoryAccess& of_b) { return conflict(of_a, of_b); });
  });
}

}  // namespace

std::vector<std::vector<int64_t>> waits_of(std::span<const std::vector<MemoryAccess>> steps) {
  std::vector<std::vector<int64_t>> waits(steps.size());
  std::vector<std::vector<bool>> before(steps.size());  // whether a step has ended when this one starts
  for (size_t s = 0; s < steps.size(); ++s) {
    before[s].resize(s);
    for (size_t earlier = s; earlier-- > 0;) {  // the last ones first: they wait for others
      if (before[s][earlier] || !conflict(steps[s], steps[earlier])) continue;
      waits[s].push_back(static_cast<int64_t>(earlier));
      before[s][earlier] = true;
      for (size_t i = 0; i < earlier; ++i) before[s][i] = before[s][i] || before[earlier][i];
    }
    std::ranges::reverse(waits[s]);
  }
  return waits;
}

}  // namespace tw::driver
