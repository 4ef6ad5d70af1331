// The steps of an entry as a run takes them, those of repeats turn after turn, and where its buffers lie then.
#pragma once
#include <functional>
#include <span>

#include "runtime/format/manifest.h"

namespace tw::format {

/// Most steps that a run takes, each counted in every turn; also the longest period of a move.
inline constexpr int64_t kMaxStepsRun = int64_t{1} << 24;
/// Most repeats that hold one step.
inline constexpr size_t kMaxNested = 16;

inline bool holds(const Repeat& repeat, int64_t step) {
  return step >= repeat.first && step - repeat.first < repeat.count;
}

/// `turns` has the present turn of each of Entry::repeats, 0 outside of it; `first_of_turn` says that a turn begins
/// with this step.
using VisitStep = std::function<void(size_t step, std::span<const int64_t> turns, bool first_of_turn)>;

/// Visits the entry's steps [0, steps) in the order in which they run.
void for_each_step(const Entry& entry, size_t steps, const VisitStep& visit);

/// How often that is; any number above kMaxStepsRun where it is more than that.
size_t steps_run(const Entry& entry, size_t steps);

/// Where number `buffer` of Entry::buffers lies in these turns: a buffer without moves, `initial` and name.
Buffer located(const Entry& entry, int64_t buffer, std::span<const int64_t> turns);

/// From the buffer's offset to the end of the last bytes to which its moves can bring it. Where it begins is not
/// counted.
int64_t extent(const Buffer& buffer);

}  // namespace tw::format
