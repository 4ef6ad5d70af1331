// The parts of validate() that are files of their own. All throw Error(kDamaged).
#pragma once
#include "runtime/format/manifest.h"

namespace tw::format {

inline bool is_index(int64_t index, size_t count) { return index >= 0 && static_cast<uint64_t>(index) < count; }

/// Where an extent that inputs say has no range, is not that of the dims that it names, or cannot be read from the
/// inputs; or where a dim has two of them. The entry's tensors are valid.
void check_extents(const Entry& entry);

/// Where the arena is larger than its buffers need, and of CPU steps where a buffer of a tensor is not all of it and
/// does not move, or buffers that are in use at the same time overlap: those but for rows of one value, which have its
/// name. Pre: indices are right.
void check_memory(const Entry& entry);

/// Unless the moves of a buffer are of repeats that there are, the outermost first, and leave it within `room` bytes
/// behind its first place.
void check_moves(const Entry& entry, const Buffer& buffer, int64_t room);

/// Unless repeats nest, run no more than kMaxStepsRun steps, and buffers move, and begin, as the steps need that take
/// them. All else about steps and buffers has been checked.
void check_repeats(const Entry& entry);

}  // namespace tw::format
