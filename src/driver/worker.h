// The workers of a compiler, for programs that are one: `tilewright worker`.
#pragma once
#include <cstdint>

namespace tw::driver {

/// What a worker does for its compiler.
enum class WorkerJob : uint8_t {
  kMeasure,  // runs candidates (tune/measure)
  kCubins,   // compiles GPU kernels (codegen/cuda)
};

/// Serves a compiler on standard input, a socket, until it hangs up. UsageError when it is none.
void serve_compiler(WorkerJob job);

}  // namespace tw::driver
