#include "runtime/format/turns.h"

#include <algorithm>

namespace tw::format {
namespace {

class Walk {
 public:
  Walk(const Entry& entry, const VisitStep& visit)
      : repeats_(entry.repeats), visit_(visit), turns_(entry.repeats.size()) {}

  /// Steps [begin, end), where repeat number `next` is the first that may lie in them. Returns that behind them.
  size_t run(int64_t begin, int64_t end, size_t next, bool first_of_turn) {
    for (int64_t step = begin; step < end; first_of_turn = false) {
      if (next == repeats_.size() || repeats_[next].first != step) {
        visit_(static_cast<size_t>(step++), turns_, first_of_turn);
        continue;
      }
      const Repeat& repeat = repeats_[next];
      int64_t& turn = turns_[next];
      size_t behind = next + 1;
      for (; turn < repeat.turns; ++turn) behind = run(step, step + repeat.count, next + 1, true);
      turn = 0;
      next = behind;
      step += repeat.count;
    }
    return next;
  }

 private:
  const std::vector<Repeat>& repeats_;
  const VisitStep& visit_;
  std::vector<int64_t> turns_;
};

}  // namespace

void for_each_step(const Entry& entry, size_t steps, const VisitStep& visit) {
  Walk(entry, visit).run(0, static_cast<int64_t>(steps), 0, false);
}

size_t steps_run(const Entry& entry, size_t steps) {
  constexpr int64_t kTooMany = kMaxStepsRun + 1;
  std::vector<int64_t> times(steps, 1);
  for (const Repeat& repeat : entry.repeats) {
    for (int64_t step = repeat.first; step < repeat.first + repeat.count; ++step) {
      int64_t& count = times[static_cast<size_t>(step)];
      count = std::min(count * std::min(repeat.turns, kTooMany), kTooMany);
    }
  }
  size_t all = 0;
  for (const int64_t count : times) all += static_cast<size_t>(count);
  return all;
}

Buffer located(const Entry& entry, int64_t buffer, std::span<const int64_t> turns) {
  const auto turn = [&](const Move& move) { return turns[static_cast<size_t>(move.repeat)]; };
  const Buffer* at = &entry.buffers[static_cast<size_t>(buffer)];
  if (!at->initial.empty() && turn(at->moves.back()) == 0)
    at = &entry.buffers[static_cast<size_t>(at->initial.front())];
  Buffer found{at->place, at->index, at->offset, at->bytes, ""};
  for (const Move& move : at->moves) found.offset += move.bytes * ((move.start + move.step * turn(move)) % move.period);
  return found;
}

int64_t extent(const Buffer& buffer) {
  int64_t bytes = buffer.bytes;
  for (const Move& move : buffer.moves) bytes += move.bytes * (move.period - 1);
  return bytes;
}

}  // namespace tw::format
