// What a manifest says of memory: that its buffers are whole tensors, and that no two values that live at the same time
// lie in the same bytes of the arena.
#pragma once
#include "runtime/format/manifest.h"

namespace tw::format {

/// Error(kDamaged) where the arena is larger than its buffers need, and of CPU steps where a buffer of a tensor is not
/// all of it and does not move, or buffers that are in use at the same time overlap: those but for rows of one value,
/// which have its name. Pre: indices are right.
void check_memory(const Entry& entry);

}  // namespace tw::format
