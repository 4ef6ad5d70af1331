// An entry made ready for the CPU: steps with code addresses and argument tables, as loops for the thread pool.
#pragma once
#include <dlpack/dlpack.h>

#include <span>
#include <vector>

#include "runtime/device/cpu/code_map.h"
#include "runtime/float_environment.h"
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
  const int64_t* extents = nullptr;
  uint8_t* state = nullptr;
};

/// Steps in repeats are there once for each turn, their arguments where the buffers lie in that turn.
class CpuProgram final : public Loops {
 public:
  enum class Profile : uint8_t { kOff, kOn };

  /// With a profile every step is a loop of its own, otherwise steps that need not wait for each other share one, and
  /// so do those of one tile each that follow one another.
  CpuProgram(const format::Manifest& manifest, const format::Entry& entry, const CodeMap& code, const CpuMemory& memory,
             Profile profile);

  /// Prepares a run: points the arguments that are inputs and outputs at the caller's tensors.
  void bind(const DLTensor* inputs, const DLTensor* outputs);
  int count() const override { return static_cast<int>(loops_.size()); }
  int64_t tiles(int loop) const override { return loops_[static_cast<size_t>(loop)].tiles; }
  void run(int loop, int64_t begin, int64_t end, int thread) override;
  void finished(int loop) override;
  /// The first of the entry's steps that stored a nonzero error word in the last run, -1 when none did.
  int failed_step() const { return failed_step_; }
  /// That word, which another turn of a repeat may have overwritten since.
  int32_t error() const { return error_; }
  /// Time of each of the entry's steps in the last run, of all its turns together, in ns; empty without a profile.
  std::span<const uint64_t> step_times() const { return times_; }

  const format::Entry& entry() const { return entry_; }
  /// Address of a buffer in the arena, the weights or a state, of an extent or the error word; null for inputs and
  /// outputs.
  const void* address(const format::Buffer& buffer) const;

 private:
  struct Step {
    KernelFn kernel;
    void* const* args;
    int64_t tiles;
    int number;  // of Entry::cpu_steps
    bool may_fail;
  };
  enum class Order : uint8_t { kNone, kSteps };
  /// Steps [first_step, end_step) one after the other as one range of tiles; with an order as one tile, each step of
  /// one tile behind the one before.
  struct Loop {
    size_t first_step;
    size_t end_step;
    int64_t tiles;
    Order order;
  };
  struct Binding {
    size_t slot;
    format::Place place;
    int64_t index, offset;
  };
  enum class Wait : uint8_t { kNone, kForAll };  // for the steps before

  void add_step(size_t number, std::span<const int64_t> turns, const CodeMap& code, Wait wait);
  bool join_last_loop(Wait wait);
  void run_steps(const Loop& loop, void* scratch);
  void blame(const Loop& loop, int32_t error);

  const format::Manifest& manifest_;
  const format::Entry& entry_;
  CpuMemory memory_;
  std::vector<void*> args_;  // of all steps, one after the other
  std::vector<Binding> bindings_;
  std::vector<Step> steps_;
  std::vector<Loop> loops_;
  std::vector<uint64_t> times_;
  uint64_t loop_start_ = 0;  // with a profile: when the loop that runs began
  int failed_step_ = -1;
  int32_t error_ = 0;
  Subnormals subnormals_;
};

}  // namespace tw::runtime
