// Steps of kernels that code generation emits.
#pragma once
#include <span>
#include <utility>

#include "runtime/format/manifest.h"

namespace tw::format {

/// What launching a kernel takes beside its buffers.
struct CudaLaunch {
  int64_t threads = 0;       ///< of a block
  int64_t shared_bytes = 0;  ///< of a block
  /// Parameters behind the buffers; TensorMap::buffer is the place among the kernel's buffers, the offset is not used.
  std::vector<TensorMap> maps;
  int64_t blocks = 0;                  ///< that walk over the tiles; 0: one for each
  bool overlaps = false;               ///< CudaStep::overlaps
  std::string call = {};               ///< CudaStep::call
  std::vector<int64_t> operands = {};  ///< of the call: places among the buffers
  /// Where this has parameters, the launch is this one; its buffers are places among the kernel's.
  CudaStep whole = {};
  /// Of a buffer behind the kernel's, which nobody else uses: its last bytes are Entry::zeros.
  int64_t workspace_bytes = 0, zero_bytes = 0;

  /// With the workspace as buffer number `buffer`.
  Zeros zeros(int64_t buffer) const { return {buffer, workspace_bytes - zero_bytes, zero_bytes}; }
};

/// Launches `kernel` (of Manifest::kernels) with one block for each tile, or as many as walk over them. Its parameters
/// are the addresses of `args` (of Entry::buffers), in order, and then `launch.maps`. Or calls the library of `launch`.
inline CudaStep step_over_tiles(int64_t kernel, int64_t tiles, const CudaLaunch& launch,
                                std::span<const int64_t> args) {
  CudaStep step;
  if (!launch.call.empty()) {
    step.call = launch.call;
    for (const int64_t place : launch.operands) step.operands.push_back(args[static_cast<size_t>(place)]);
    return step;
  }
  const auto buffer_of = [&](auto& user) { user.buffer = args[static_cast<size_t>(user.buffer)]; };
  if (!launch.whole.params.empty()) {
    step = launch.whole;
    step.kernel = kernel;
    for (Relocation& relocation : step.relocations) buffer_of(relocation);
    for (TensorMap& map : step.tensor_maps) buffer_of(map);
    return step;
  }
  step.kernel = kernel;
  step.grid = {launch.blocks > 0 ? launch.blocks : tiles, 1, 1};
  step.block = {launch.threads, 1, 1};
  step.shared_bytes = launch.shared_bytes;
  int64_t end = 0;
  const auto add_argument = [&](int64_t bytes) {
    step.arguments.push_back(end);
    return std::exchange(end, end + bytes);
  };
  for (const int64_t buffer : args) step.relocations.push_back({add_argument(sizeof(uint64_t)), buffer, 0});
  for (TensorMap map : launch.maps) {
    buffer_of(map);
    map.offset = add_argument(TensorMap::kBytes);
    step.tensor_maps.push_back(std::move(map));
  }
  step.params.resize(static_cast<size_t>(end));
  step.overlaps = launch.overlaps;
  return step;
}

}  // namespace tw::format
