// Which input of a graph an extent of its entry is.
#pragma once
#include "runtime/format/manifest.h"
#include "transform/rewrite/live_extents.h"

namespace tw::driver {

/// The name of the input i64[1] that says how large the extent is.
inline std::string input_of(const format::Extent& extent) { return transform::input_of({extent.name}); }

}  // namespace tw::driver
