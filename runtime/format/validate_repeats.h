// The part of validate() that is about repeats and the buffers that move with them.
#pragma once
#include "runtime/format/manifest.h"

namespace tw::format {

/// Throws Error(kDamaged) unless the moves of a buffer are of repeats that there are, the outermost first, and leave it
/// within `room` bytes behind its first place.
void check_moves(const Entry& entry, const Buffer& buffer, int64_t room);

/// Throws Error(kDamaged) unless repeats nest, run no more than kMaxStepsRun steps, and buffers move, and begin, as the
/// steps need that take them. All else about steps and buffers has been checked.
void check_repeats(const Entry& entry);

}  // namespace tw::format
