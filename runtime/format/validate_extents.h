// Extents of entries that inputs say.
#pragma once
#include "runtime/format/manifest.h"

namespace tw::format {

/// Throws Error(kDamaged) where an extent has no range, is not that of the dims that it names, or cannot be read from
/// the inputs; or where a dim has two of them. The entry's tensors are valid.
void check_extents(const Entry& entry);

}  // namespace tw::format
