// Running sums and products, by doubling.
#pragma once
#include <cstdint>

#include "frontend/onnx/emitter.h"

namespace tw::frontend {

/// Which elements come together with each: those before it along the axis, or those behind it.
enum class RunsFrom : int8_t { kBegin = 1, kEnd = -1 };

/// Along `axis` of `x` each element and all on one side of it, added, or multiplied (op "mul").
graph::ValueId running(Emitter& e, graph::ValueId x, int64_t axis, std::string_view op, RunsFrom from);

/// `x` shifted along the axis by `distance` towards its end (or its beginning), what changes nothing under `op` coming
/// in.
graph::ValueId shifted(Emitter& e, graph::ValueId x, int64_t axis, int64_t distance, std::string_view op);

}  // namespace tw::frontend
