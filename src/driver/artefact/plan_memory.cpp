#include "driver/artefact/plan_memory.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "support/error.h"
#include "support/math.h"

namespace tw::driver {
namespace {

constexpr int64_t kLine = 64;         // bytes: one cache line, one vector
constexpr int64_t kSetPeriod = 4096;  // bytes after which lines fall into the same L1 set again: 64 sets of 64 bytes

/// Ranges of steps, and which of them meet another one: a segment tree, so that the thousands of short-lived buffers of
/// an unrolled recurrence do not all look at each other.
class Timeline {
 public:
  explicit Timeline(int64_t steps) : steps_(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(steps, 1)))) {
    nodes_.resize(2 * steps_);
  }
  void add(const BufferRequest& range, size_t item) { add(1, 0, steps_ - 1, range, item); }
  /// Calls f with all items whose range meets `range`, with some of them several times.
  template <typename F>
  void for_each(const BufferRequest& range, const F& f) const {
    visit(1, 0, steps_ - 1, range, f);
  }

 private:
  struct Node {
    std::vector<size_t> items;  // whose ranges hold all of the node's steps
    bool is_used = false;       // it or a node below has items
  };

  static bool meets(const BufferRequest& range, int64_t first, int64_t last) {
    return range.first_step <= last && first <= range.last_step;
  }

  void add(size_t node, int64_t first, int64_t last, const BufferRequest& range, size_t item) {
    if (!meets(range, first, last)) return;
    nodes_[node].is_used = true;
    if (range.first_step <= first && last <= range.last_step) {
      nodes_[node].items.push_back(item);
      return;
    }
    const int64_t middle = (first + last) / 2;
    add(2 * node, first, middle, range, item);
    add(2 * node + 1, middle + 1, last, range, item);
  }

  template <typename F>
  void visit(size_t node, int64_t first, int64_t last, const BufferRequest& range, const F& f) const {
    if (!nodes_[node].is_used || !meets(range, first, last)) return;
    for (const size_t item : nodes_[node].items) f(item);
    if (first == last) return;
    const int64_t middle = (first + last) / 2;
    visit(2 * node, first, middle, range, f);
    visit(2 * node + 1, middle + 1, last, range, f);
  }

  int64_t steps_;  // a power of two
  std::vector<Node> nodes_;
};

int64_t count_steps(std::span<const BufferRequest> requests) {
  int64_t last = 0;
  for (const BufferRequest& request : requests) last = std::max(last, request.last_step);
  return last + 1;
}

bool is_large(const BufferRequest& request) { return request.bytes >= kSetPeriod; }

class Planner {
 public:
  explicit Planner(std::span<const BufferRequest> requests) : requests_(requests), placed_(count_steps(requests)) {}

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
    placed_.for_each(requests_[i], [&](size_t p) {
      neighbours.push_back(p);
      if (is_large(requests_[p])) taken[plan_.offsets[p] % kSetPeriod / kLine] = true;
    });
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
    placed_.add(requests_[i], i);
  }

  static int64_t next_free_set(int64_t low, const std::vector<bool>& taken) {
    for (int64_t step = 0; step < kSetPeriod; step += kLine) {
      if (!taken[(low + step) % kSetPeriod / kLine]) return low + step;
    }
    return low;
  }

  std::span<const BufferRequest> requests_;
  MemoryPlan plan_;
  Timeline placed_;
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
