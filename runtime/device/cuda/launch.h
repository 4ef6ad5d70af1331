// Kernel launches, calls of libraries and the graph that holds those of an entry.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "runtime/device/cuda/gpu.h"
#include "runtime/device/cuda/library.h"
#include "runtime/format/manifest.h"

namespace tw::runtime::cuda {

/// A step with its parameter block for one context; one in a repeat has a launch for each turn.
struct Launch {
  const format::CudaStep* step = nullptr;
  std::vector<int64_t> after = {};  // launches that end before it, as CudaStep::after
  std::vector<int64_t> turns = {};  // of Entry::repeats; only of a launch that takes addresses of inputs or outputs
  FunctionHandle function = nullptr;
  std::vector<uint8_t> params = {};
  const Call* call = nullptr;  // instead of a function, with its operands and memory
  std::vector<DevicePtr> operands = {};
  DevicePtr workspace = 0;
  size_t error_word = 0;  // its own one of the context's
  bool in_graph = true;   // whether the graph's node has these parameters
};

/// Writes the driver's description of the tensor at `address` into the parameter block; returns whether that changed
/// it.
bool encode_map(const Driver& driver, const format::TensorMap& map, DevicePtr address, std::vector<uint8_t>& params);

/// Memory that is set to 0 before launch number `before`, while those before it run.
struct Clearing {
  DevicePtr address = 0;
  size_t bytes = 0;
  size_t before = 0;
};

/// Launches by itself, for runs that time each step. The GPU is current.
void launch_alone(const Driver& driver, Launch& launch, StreamHandle stream);

/// Launches as one executable CUDA graph: made once, submitted for each run by one call of the driver.
class LaunchGraph {
 public:
  /// Node i is launches[i] and waits for those of its `after`; others run beside it. The GPU is current.
  LaunchGraph(const Gpu& gpu, std::span<Launch> launches, std::span<const Clearing> clearings);

  /// Gives node `index` the parameters of `launch`, for submissions from now on.
  void update(size_t index, Launch& launch);
  void submit(StreamHandle stream) const;

 private:
  void add_nodes(std::span<Launch> launches);
  void add_clearing(const Clearing& clearing);
  template <typename Use>
  Result with_captured(const Launch& launch, const Use& use);

  const Gpu& gpu_;
  Owned<GraphHandle, &Driver::graph_destroy> graph_;  // its nodes are the names by which the executable one is updated
  Owned<GraphExecHandle, &Driver::graph_exec_destroy> exec_;
  std::vector<GraphNodeHandle> nodes_;
  std::optional<Stream> capture_;  // takes down what libraries launch
};

}  // namespace tw::runtime::cuda
