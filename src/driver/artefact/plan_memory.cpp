#include "driver/artefact/plan_memory.h"

#include <algorithm>
#include <numeric>

#include "support/error.h"
#include "support/math.h"

namespace tw::driver {
namespace {

constexpr int64_t kLine = 64;         // bytes: one cache line, one vector
constexpr int64_t kSetPeriod = 4096;  // bytes after which lines fall into the same L1 set again: 64 sets of 64 bytes

bool live_together(const BufferRequest& a, const BufferRequest& b) {
  return a.first_step <= b.last_step && b.first_step <= a.last_step;
}

bool is_large(const BufferRequest& request) { return request.bytes >= kSetPeriod; }

class Planner {
 public:
  explicit Planner(std::span<const BufferRequest> requests) : requests_(requests) {}

  MemoryPlan run() {
    plan_.offsets.assign(requests_.size(), 0);
    std::vector<size_t> order(requests_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return requests_[a].bytes > requests_[b].bytes; });
    for (const size_t i : order) place(i);
    return std::move(plan_);
  }

 private:
  void place(size_t i) {
    // Placed neighbours in time, by offset; the lowest gap between them that is large enough wins.
    std::vector<size_t> neighbours;
    std::vector<bool> taken(kSetPeriod / kLine, false);
    for (const size_t p : placed_) {
      if (!live_together(requests_[i], requests_[p])) continue;
      neighbours.push_back(p);
      if (is_large(requests_[p])) taken[plan_.offsets[p] % kSetPeriod / kLine] = true;
    }
    std::sort(neighbours.begin(), neighbours.end(),
              [&](size_t a, size_t b) { return plan_.offsets[a] < plan_.offsets[b]; });
    const auto start_from = [&](int64_t low) { return is_large(requests_[i]) ? next_free_set(low, taken) : low; };
    int64_t offset = start_from(0);
    for (const size_t p : neighbours) {
      if (offset + requests_[i].bytes <= plan_.offsets[p]) break;
      const int64_t end = round_up(plan_.offsets[p] + requests_[p].bytes, kLine);
      if (end > offset) offset = start_from(end);
    }
    plan_.offsets[i] = offset;
    plan_.arena_bytes = std::max(plan_.arena_bytes, round_up(offset + requests_[i].bytes, kLine));
    placed_.push_back(i);
  }

  static int64_t next_free_set(int64_t low, const std::vector<bool>& taken) {
    for (int64_t step = 0; step < kSetPeriod; step += kLine) {
      if (!taken[(low + step) % kSetPeriod / kLine]) return low + step;
    }
    return low;
  }

  std::span<const BufferRequest> requests_;
  MemoryPlan plan_;
  std::vector<size_t> placed_;
};

}  // namespace

MemoryPlan plan_memory(std::span<const BufferRequest> requests) {
  for (const BufferRequest& request : requests) {
    TW_CHECK(request.bytes >= 0 && request.first_step <= request.last_step, "buffer of {} bytes from step {} to {}",
             request.bytes, request.first_step, request.last_step);
  }
  return Planner(requests).run();
}

}  // namespace tw::driver
