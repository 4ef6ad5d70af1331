// A CUDA driver made for tests: "device memory" is host memory, some "kernels" are functions, streams do at once what
// they are asked for, and everything that must be released is counted.
#pragma once
#ifdef TW_RUNTIME_CUDA
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device/cuda/driver.h"

namespace tw::test {

/// A tensor that was described for bulk copies; extents innermost first. Of windows the box is channels and pixels, and
/// corners are of the dims between the first and the last.
struct FakeMap {
  int type, swizzle;
  void* address;
  std::vector<uint64_t> shape, strides;
  std::vector<uint32_t> box;
  std::vector<uint32_t> steps;
  std::vector<int> first, last;
};

/// What the driver was asked for, and what it is to answer; its functions have no state argument, so it is global.
struct FakeGpu {
  std::set<void*> memory;
  int contexts_pushed = 0, contexts_retained = 0, modules = 0, streams = 0, events = 0, graphs = 0,
      executable_graphs = 0;
  int launches = 0;        // of kernels by themselves
  int graph_launches = 0;  // of whole graphs
  int kernels_run = 0;     // in both ways
  int edges = 0, overlapping_edges = 0;
  std::vector<size_t> cleared_before;  // the node, from 0, that waits for memory to be cleared
  int instantiations = 0, node_updates = 0, copies = 0;
  /// A letter for each thing put on a stream: i(n), o(ut), d (on the device), e(vent), w(ait for one), g(raph),
  /// k(ernel), h(ost function), l(ibrary call), which is c(aptured) at times.
  std::string calls;
  std::vector<runtime::cuda::StreamHandle> graph_streams;  // of whole graphs
  std::vector<runtime::cuda::StreamHandle> following;      // that were told to wait for an event
  std::vector<const void*> copied;                         // where "copy" and its like read from
  int max_shared = 0, shared_limit = 1 << 20;
  std::vector<std::pair<void (*)(void*), void*>> host_work;  // put on a stream, done when that is waited for
  int waits = 0;                                             // for a stream
  int unknown_params = 0;                                    // asked for
  bool takes_map = false;                                    // "scale", as its last parameter
  std::vector<FakeMap> maps;
  unsigned grid[3] = {}, block[3] = {}, shared = 0;  // of the kernel that ran last
  runtime::cuda::Result init_result = 0, instantiate_result = 0, update_result = 0, launch_result = 0,
                        copy_result = 0;  // the last one: of copies on the device
  runtime::cuda::Result fault = 0;        // of a kernel: what follows fails with it
  int devices = 1;
  size_t memory_limit = 1 << 20;
};
extern FakeGpu fake;

/// Parameters of "scale": out[i] = in[i] * *factor, and of "fail": stores 1 into the error word at `in`.
struct FakeParams {
  float* in;
  const float* factor;
  float* out;
  int64_t n;
};

/// Parameters of "copy", of a float for each block, "negate", which changes its sign, "outside", which copies one float
/// too many, and "fault", an access to memory that is not there.
struct FakePointers {
  const float* in;
  float* out;
};

/// For fake libraries: what they launch runs now, or is captured.
void put_on_stream(const std::function<void()>& call);

/// One GPU of compute capability 9.0 with these kernels in every cubin that starts with "cubin", without libraries.
runtime::cuda::Driver fake_driver();

}  // namespace tw::test
#endif
