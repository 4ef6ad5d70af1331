#include "driver/artefact/plan_memory.h"

#include <algorithm>
#include <bit>

#include "support/error.h"
#include "support/join.h"
#include "support/math.h"

namespace tw::driver {
namespace {

constexpr int64_t kLine = 64;  // bytes: one cache line, one vector
constexpr int64_t kSets = 64;  // of an L1: a line falls into the same one again every kSets lines
constexpr int64_t kSetPeriod = kSets * kLine;

/// A set of lines of the arena, as ranges that do not touch each other, in order: arenas of gigabytes have few of them.
class Lines {
 public:
  void add(int64_t first, int64_t count) {
    if (count == 0) return;
    Range joined = {first, first + count};
    const auto from = std::ranges::lower_bound(ranges_, joined.first, {}, &Range::end);
    const auto to = std::ranges::upper_bound(from, ranges_.end(), joined.end, {}, &Range::first);
    if (from != to) joined = {std::min(joined.first, from->first), std::max(joined.end, std::prev(to)->end)};
    ranges_.insert(ranges_.erase(from, to), joined);
  }
  void add(const Lines& others) {
    std::vector<Range> sorted;
    sorted.reserve(ranges_.size() + others.ranges_.size());
    std::ranges::merge(ranges_, others.ranges_, std::back_inserter(sorted), {}, &Range::first, &Range::first);
    ranges_.clear();
    for (const Range& range : sorted) {
      if (ranges_.empty() || ranges_.back().end < range.first) {
        ranges_.push_back(range);
      } else {
        ranges_.back().end = std::max(ranges_.back().end, range.end);
      }
    }
  }
  void clear() { ranges_.clear(); }

  /// The first of `count` lines from `line` on where none is in the set, as `start` moves it on: start(line) >= line.
  template <typename Start>
  int64_t gap(int64_t line, int64_t count, const Start& start) const {
    line = start(line);
    for (auto range = std::ranges::upper_bound(ranges_, line, {}, &Range::end); range != ranges_.end(); ++range) {
      if (line + count <= range->first) break;
      line = start(std::max(line, range->end));
    }
    return line;
  }

 private:
  struct Range {
    int64_t first, end;
  };
  std::vector<Range> ranges_;
};

/// What is used of the arena.
struct Used {
  Lines lines;
  uint64_t sets = 0;  // where large buffers begin, as bits

  void add(const Used& others) {
    lines.add(others.lines);
    sets |= others.sets;
  }
  void clear() {
    lines.clear();
    sets = 0;
  }
};

/// What is used at which steps: a segment tree, so that the thousands of buffers of an unrolled recurrence do not all
/// look at each other.
class Timeline {
 public:
  explicit Timeline(int64_t steps) : steps_(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(steps, 1)))) {
    nodes_.resize(2 * steps_);
  }
  void add(const BufferRequest& range, int64_t line, int64_t count, uint64_t set) {
    add(1, {0, steps_ - 1}, {range.first_step, range.last_step}, [&](Used& used) {
      used.lines.add(line, count);
      used.sets |= set;
    });
  }
  /// Adds what is used in some step of `range` to `out`.
  void find(const BufferRequest& range, Used& out) const {
    find(1, {0, steps_ - 1}, {range.first_step, range.last_step}, out);
  }

 private:
  struct Span {
    int64_t first, last;
    bool meets(const Span& other) const { return first <= other.last && other.first <= last; }
    bool holds(const Span& other) const { return first <= other.first && other.last <= last; }
    Span half(int which) const {
      const int64_t middle = (first + last) / 2;
      return which == 0 ? Span{first, middle} : Span{middle + 1, last};
    }
  };
  struct Node {
    Used whole;  // in all of its steps
    Used all;    // in some of them
  };

  template <typename F>
  void add(size_t node, const Span& own, const Span& range, const F& use) {
    if (!own.meets(range)) return;
    use(nodes_[node].all);
    if (range.holds(own)) return use(nodes_[node].whole);
    for (const int which : {0, 1}) add(2 * node + which, own.half(which), range, use);
  }

  void find(size_t node, const Span& own, const Span& range, Used& out) const {
    if (!own.meets(range)) return;
    if (range.holds(own)) return out.add(nodes_[node].all);
    out.add(nodes_[node].whole);
    for (const int which : {0, 1}) find(2 * node + which, own.half(which), range, out);
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

class MemoryPlanner {
 public:
  explicit MemoryPlanner(std::span<const BufferRequest> requests)
      : requests_(requests), placed_(count_steps(requests)) {}

  MemoryPlan run() {
    plan_.offsets.assign(requests_.size(), 0);
    std::vector<size_t> order = sequence<size_t>(requests_.size());
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return requests_[a].bytes > requests_[b].bytes; });
    for (const size_t i : order) place(i);
    return std::move(plan_);
  }

 private:
  // The lowest gap in what is used meanwhile that is large enough.
  void place(size_t i) {
    used_.clear();
    placed_.find(requests_[i], used_);
    const int64_t count = (requests_[i].bytes + kLine - 1) / kLine;
    const int64_t line = used_.lines.gap(0, count, [&](int64_t from) { return start_from(from, i); });
    plan_.offsets[i] = line * kLine;
    plan_.arena_bytes = std::max(plan_.arena_bytes, (line + count) * kLine);
    placed_.add(requests_[i], line, count, is_large(requests_[i]) ? uint64_t{1} << line % kSets : 0);
  }

  // From `line` on, for a large buffer in a set of the L1 where none that lives meanwhile begins.
  int64_t start_from(int64_t line, size_t i) const {
    const uint64_t free = std::rotr(~used_.sets, static_cast<int>(line % kSets));
    return is_large(requests_[i]) && free != 0 ? line + std::countr_zero(free) : line;
  }

  std::span<const BufferRequest> requests_;
  MemoryPlan plan_;
  Timeline placed_;
  Used used_;  // by what lives with the buffer that is being placed
};

}  // namespace

MemoryPlan plan_memory(std::span<const BufferRequest> requests) {
  for (const BufferRequest& request : requests) {
    TW_CHECK(request.bytes >= 0 && request.first_step <= request.last_step, "buffer of {} bytes from step {} to {}",
             request.bytes, request.first_step, request.last_step);
  }
  return MemoryPlanner(requests).run();
}

}  // namespace tw::driver
