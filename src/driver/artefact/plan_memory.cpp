#include "driver/artefact/plan_memory.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "support/error.h"
#include "support/math.h"

namespace tw::driver {
namespace {

constexpr int64_t kLine = 64;  // bytes: one cache line, one vector
constexpr int64_t kSets = 64;  // of an L1: a line falls into the same one again every kSets lines
constexpr int64_t kSetPeriod = kSets * kLine;

/// A set of lines of the arena.
class Lines {
 public:
  void add(int64_t first, int64_t count) {
    if (count == 0) return;
    reach(first / kBits, (first + count - 1) / kBits);
    for (int64_t line = first; line < first + count;) {
      const int64_t shift = line % kBits, bits = std::min(kBits - shift, first + count - line);
      words_[line / kBits - base_] |= (bits == kBits ? ~uint64_t{0} : (uint64_t{1} << bits) - 1) << shift;
      line += bits;
    }
  }
  void add(const Lines& others) {
    if (others.words_.empty()) return;
    reach(others.base_, others.base_ + std::ssize(others.words_) - 1);
    for (size_t w = 0; w < others.words_.size(); ++w) words_[others.base_ - base_ + w] |= others.words_[w];
  }
  void clear() { words_.clear(); }

  /// The first line from `line` on that is in the set, at most `none`.
  int64_t find(int64_t line, int64_t none) const {
    line = std::max(line, base_ * kBits);
    while (line < none && line / kBits < end()) {
      const uint64_t word = words_[line / kBits - base_] >> (line % kBits);
      if (word != 0) return std::min(none, line + std::countr_zero(word));
      line += kBits - line % kBits;
    }
    return none;
  }
  /// The first line behind `line`, which is in the set, that is not.
  int64_t find_end(int64_t line) const {
    while (line / kBits < end()) {
      const uint64_t word = ~words_[line / kBits - base_] >> (line % kBits);
      if (word != 0) return line + std::countr_zero(word);
      line += kBits - line % kBits;
    }
    return line;
  }

 private:
  static constexpr int64_t kBits = 64;
  int64_t end() const { return base_ + std::ssize(words_); }

  void reach(int64_t first, int64_t last) {
    if (words_.empty()) base_ = first;
    if (first < base_) {
      words_.insert(words_.begin(), base_ - first, 0);
      base_ = first;
    }
    if (last >= end()) words_.resize(last - base_ + 1, 0);
  }

  int64_t base_ = 0;  // number of the first word
  std::vector<uint64_t> words_;
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
    std::vector<size_t> order(requests_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return requests_[a].bytes > requests_[b].bytes; });
    for (const size_t i : order) place(i);
    return std::move(plan_);
  }

 private:
  // The lowest gap in what is used meanwhile that is large enough.
  void place(size_t i) {
    used_.clear();
    placed_.find(requests_[i], used_);
    const int64_t count = (requests_[i].bytes + kLine - 1) / kLine;
    int64_t line = start_from(0, i);
    for (;;) {
      const int64_t met = used_.lines.find(line, line + count);
      if (met == line + count) break;
      line = start_from(used_.lines.find_end(met), i);
    }
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
