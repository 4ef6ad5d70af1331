// An entry made ready for the CPU: steps with code addresses and argument tables, and their execution by one team.
#pragma once
#include <dlpack/dlpack.h>

#include <atomic>
#include <vector>

#include "runtime/device/cpu/code_map.h"
#include "runtime/format/manifest.h"
#include "runtime/thread_pool.h"

namespace tw::runtime {

/// Memory that the steps of a context share.
struct CpuMemory {
  uint8_t* arena = nullptr;
  uint8_t* weights = nullptr;
  uint8_t* scratch = nullptr;
  int64_t scratch_stride = 0;  // bytes between the scratch areas of two threads; 0 without scratch
  int32_t* error = nullptr;
};

class CpuProgram {
 public:
  CpuProgram(const format::Manifest& manifest, const format::Entry& entry, const CodeMap& code,
             const CpuMemory& memory);

  /// Points the arguments that are inputs and outputs at the caller's tensors.
  void bind(const DLTensor* inputs, const DLTensor* outputs);
  /// Runs this thread's share of every step; all threads of a team call it together. Tiles are split into contiguous
  /// runs: thread t of T takes [t * tiles / T, (t + 1) * tiles / T).
  void execute(const Team& team);
  /// The same with a barrier after every step; writes the time of each to times[step], in ns.
  void execute_timed(const Team& team, uint64_t* times);
  /// The first step that stored a nonzero error word in the last run, -1 when none did. Resets it.
  int take_failed_step();

  const format::Entry& entry() const { return entry_; }
  /// Address of a buffer in the arena or the weights or of the error word; null for inputs and outputs.
  const void* address(const format::Buffer& buffer) const;

 private:
  struct Step {
    KernelFn kernel;
    void* const* args;
    int64_t tiles;
    bool after;
    bool may_fail;
  };
  struct Binding {
    size_t slot;
    const format::Buffer* buffer;
  };

  static constexpr int kNoStep = INT32_MAX;

  void run_share(size_t step, const Team& team);
  void blame(int step);

  const format::Entry& entry_;
  CpuMemory memory_;
  std::vector<void*> args_;  // of all steps, one after the other
  std::vector<Binding> bindings_;
  std::vector<Step> steps_;
  std::atomic<int> failed_step_{kNoStep};
};

}  // namespace tw::runtime
