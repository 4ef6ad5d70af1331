#include "runtime/format/step_order.h"

#include <algorithm>

#include "runtime/format/error.h"

namespace tw::format {
namespace {

using Ranges = std::vector<StepOrder::Range>;
constexpr size_t kMostRanges = size_t{1} << 24;

Ranges in_both(const Ranges& a, const Ranges& b) {
  Ranges both;
  for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end(); x->end < y->end ? ++x : ++y) {
    const StepOrder::Range range = {std::max(x->begin, y->begin), std::min(x->end, y->end)};
    if (range.begin < range.end) both.push_back(range);
  }
  return both;
}

}  // namespace

StepOrder::StepOrder(const Entry& entry) {
  for (const CpuStep& step : entry.cpu_steps) {  // those since the last barrier
    const auto s = static_cast<uint32_t>(open_.size());
    const uint32_t begin = step.after || s == 0 ? s : open_.back().empty() ? s - 1 : open_.back().front().begin;
    open_.push_back(begin < s ? Ranges{{begin, s}} : Ranges{});
  }
  size_t ranges = 0;
  for (const CudaStep& step : entry.cuda_steps) {
    const auto s = static_cast<uint32_t>(open_.size());
    Ranges open = {{0, s}};
    for (const int64_t before : step.after) {
      const auto b = static_cast<uint32_t>(before);
      Ranges of = open_[b];
      of.push_back({b + 1, s});
      open = in_both(open, of);
    }
    ranges += open.size();
    if (ranges > kMostRanges) fail(ErrorCode::kDamaged, "manifest: entry '", entry.name, "' has too many branches");
    open_.push_back(std::move(open));
  }
}

bool StepOrder::has_ended(size_t earlier, size_t step) const {
  return std::ranges::none_of(open_[step], [&](const Range& r) { return r.begin <= earlier && earlier < r.end; });
}

}  // namespace tw::format
