// Steps of kernels that code generation emits.
#pragma once
#include <span>

#include "runtime/format/manifest.h"

namespace tw::format {

/// Launches `kernel` (of Manifest::kernels) with one block of `threads` for each tile. Its parameters are the addresses
/// of `args` (of Entry::buffers), in order.
inline CudaStep step_over_tiles(int64_t kernel, int64_t tiles, int64_t threads, int64_t shared_bytes,
                                std::span<const int64_t> args) {
  CudaStep step;
  step.kernel = kernel;
  step.grid = {tiles, 1, 1};
  step.block = {threads, 1, 1};
  step.shared_bytes = shared_bytes;
  step.params.resize(args.size() * sizeof(uint64_t));
  for (size_t i = 0; i < args.size(); ++i)
    step.relocations.push_back({static_cast<int64_t>(i * sizeof(uint64_t)), args[i], 0});
  return step;
}

}  // namespace tw::format
