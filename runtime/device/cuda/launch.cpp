#include "runtime/device/cuda/launch.h"

#include <nvtx3/nvtx3.hpp>

#include "runtime/format/error.h"

namespace tw::runtime::cuda {
namespace {

/// The driver's form of a launch, which must outlive it.
class NodeParams {
 public:
  explicit NodeParams(Launch& launch) {
    const auto number = [](int64_t value) { return static_cast<unsigned>(value); };
    const format::CudaStep& step = *launch.step;
    for (const int64_t offset : step.arguments) arguments_.push_back(launch.params.data() + offset);
    raw_.function = launch.function;
    raw_.grid_x = number(step.grid[0]), raw_.grid_y = number(step.grid[1]), raw_.grid_z = number(step.grid[2]);
    raw_.block_x = number(step.block[0]), raw_.block_y = number(step.block[1]), raw_.block_z = number(step.block[2]);
    raw_.shared_bytes = number(step.shared_bytes);
    raw_.params = arguments_.data();
  }
  NodeParams(const NodeParams&) = delete;
  NodeParams& operator=(const NodeParams&) = delete;
  const KernelNodeParams& raw() const { return raw_; }

 private:
  std::vector<void*> arguments_;
  KernelNodeParams raw_{};
};

void check_step(const Driver& driver, Result result, const Launch& launch) {
  if (result != kSuccess) driver.check(result, format::join("launch step '", launch.step->name, "'").c_str());
}

}  // namespace

void launch_alone(const Driver& driver, Launch& launch, StreamHandle stream) {
  const nvtx3::scoped_range range(launch.step->name);
  if (launch.call != nullptr) return launch.call->run(launch.operands, launch.workspace, stream);
  const NodeParams params(launch);
  const KernelNodeParams& p = params.raw();
  const Result result = driver.launch(p.function, p.grid_x, p.grid_y, p.grid_z, p.block_x, p.block_y, p.block_z,
                                      p.shared_bytes, stream, p.params, p.extra);
  check_step(driver, result, launch);
}

LaunchGraph::LaunchGraph(const Gpu& gpu, std::span<Launch> launches, std::span<const Clearing> clearings)
    : gpu_(gpu), graph_(nullptr, {&gpu}), exec_(nullptr, {&gpu}) {
  GraphHandle graph = nullptr;
  GraphExecHandle exec = nullptr;
  gpu.driver.check(gpu.driver.graph_create(&graph, 0), "make a CUDA graph");
  graph_.reset(graph);
  add_nodes(launches);
  for (const Clearing& clearing : clearings) add_clearing(clearing);
  gpu.driver.check(gpu.driver.graph_instantiate(&exec, graph, 0), "make a CUDA graph");
  exec_.reset(exec);
}

void LaunchGraph::add_nodes(std::span<Launch> launches) {
  for (Launch& launch : launches) {
    const NodeParams params(launch);
    GraphNodeHandle node = nullptr;
    const auto add_child = [&](GraphHandle child) {
      return gpu_.driver.graph_add_child(&node, graph_.get(), nullptr, 0, child);
    };
    check_step(gpu_.driver,
               launch.call != nullptr ? with_captured(launch, add_child)
                                      : gpu_.driver.graph_add_kernel(&node, graph_.get(), nullptr, 0, &params.raw()),
               launch);
    for (const int64_t before : launch.after) {
      const auto from = static_cast<size_t>(before);
      const bool overlaps = launch.step->overlaps && before == launch.after.back() && launches[from].call == nullptr;
      const EdgeData edge = overlaps ? kOverlapping : EdgeData{};
      check_step(gpu_.driver, gpu_.driver.graph_add_edges(graph_.get(), &nodes_[from], &node, &edge, 1), launch);
    }
    nodes_.push_back(node);
  }
}

void LaunchGraph::add_clearing(const Clearing& clearing) {
  const MemsetNodeParams params = {clearing.address, clearing.bytes, 0, 1, clearing.bytes, 1};
  const EdgeData edge{};
  GraphNodeHandle node = nullptr;
  Result result = gpu_.driver.graph_add_memset(&node, graph_.get(), nullptr, 0, &params, gpu_.context());
  if (result == kSuccess)
    result = gpu_.driver.graph_add_edges(graph_.get(), &node, &nodes_.at(clearing.before), &edge, 1);
  gpu_.driver.check(result, "clear memory in a CUDA graph");
}

/// use(the graph of what the call of `launch` puts on a stream)
template <typename Use>
Result LaunchGraph::with_captured(const Launch& launch, const Use& use) {
  const Driver& driver = gpu_.driver;
  // While it takes down calls, nobody else in the process could use the default stream beside a blocking one.
  if (!capture_) capture_.emplace(gpu_, kStreamNonBlocking);
  check_step(driver, driver.capture_begin(capture_->handle(), kCaptureRelaxed), launch);
  GraphHandle captured = nullptr;
  try {
    launch.call->run(launch.operands, launch.workspace, capture_->handle());
  } catch (...) {
    driver.capture_end(capture_->handle(), &captured);
    if (captured != nullptr) driver.graph_destroy(captured);
    throw;
  }
  check_step(driver, driver.capture_end(capture_->handle(), &captured), launch);
  const Result result = use(captured);
  driver.graph_destroy(captured);
  return result;
}

void LaunchGraph::update(size_t index, Launch& launch) {
  if (launch.call != nullptr) {
    const auto set = [&](GraphHandle child) { return gpu_.driver.graph_set_child(exec_.get(), nodes_[index], child); };
    return check_step(gpu_.driver, with_captured(launch, set), launch);
  }
  const NodeParams params(launch);
  check_step(gpu_.driver, gpu_.driver.graph_set_kernel(exec_.get(), nodes_[index], &params.raw()), launch);
}

void LaunchGraph::submit(StreamHandle stream) const {
  gpu_.driver.check(gpu_.driver.graph_launch(exec_.get(), stream), "launch the entry's CUDA graph");
}

}  // namespace tw::runtime::cuda
