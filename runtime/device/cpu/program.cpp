#include "runtime/device/cpu/program.h"

#include <algorithm>
#include <chrono>

namespace tw::runtime {
namespace {

using format::Buffer;
using format::Place;

uint64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

size_t count_args(const format::Entry& entry) {
  size_t count = 0;
  for (const format::CpuStep& step : entry.cpu_steps) count += step.args.size();
  return count;
}

}  // namespace

CpuProgram::CpuProgram(const format::Manifest& manifest, const format::Entry& entry, const CodeMap& code,
                       const CpuMemory& memory, Profile profile)
    : manifest_(manifest),
      entry_(entry),
      memory_(memory),
      subnormals_(manifest.flushes_subnormals ? Subnormals::kFlushed : Subnormals::kKept) {
  args_.reserve(count_args(entry));  // steps keep pointers into it
  steps_.reserve(entry.cpu_steps.size());
  for (const format::CpuStep& step : entry.cpu_steps) {
    const size_t first = args_.size();
    bool may_fail = false;
    for (const int64_t arg : step.args) {
      const Buffer& buffer = entry.buffers[static_cast<size_t>(arg)];
      if (buffer.place == Place::kInput || buffer.place == Place::kOutput) bindings_.push_back({args_.size(), &buffer});
      may_fail |= buffer.place == Place::kError;
      args_.push_back(const_cast<void*>(address(buffer)));
    }
    const KernelFn kernel = code.kernel(manifest.kernels[static_cast<size_t>(step.kernel)].offset);
    if (loops_.empty() || step.after || profile == Profile::kOn) loops_.push_back({steps_.size(), steps_.size(), 0});
    steps_.push_back({kernel, args_.data() + first, step.tiles, may_fail});
    loops_.back().end_step = steps_.size();
    loops_.back().tiles += step.tiles;
  }
  if (profile == Profile::kOn) times_.resize(steps_.size());
}

const void* CpuProgram::address(const Buffer& buffer) const {
  if (buffer.place == Place::kError) return memory_.error;
  if (buffer.place == Place::kArena) return memory_.arena + buffer.offset;
  if (buffer.place == Place::kWeights) return memory_.weights + buffer.offset;
  if (buffer.place == Place::kState || buffer.place == Place::kNextState)
    return memory_.state + manifest_.states[static_cast<size_t>(buffer.index)].offset + buffer.offset;
  return nullptr;
}

void CpuProgram::bind(const DLTensor* inputs, const DLTensor* outputs) {
  for (const Binding& binding : bindings_) {
    const DLTensor* tensors = binding.buffer->place == Place::kInput ? inputs : outputs;
    const DLTensor& tensor = tensors[binding.buffer->index];
    args_[binding.slot] = static_cast<uint8_t*>(tensor.data) + tensor.byte_offset + binding.buffer->offset;
  }
  failed_step_ = -1;
  if (!times_.empty()) loop_start_ = now_ns();
}

void CpuProgram::run(int loop, int64_t begin, int64_t end, int thread) {
  const Loop& range = loops_[static_cast<size_t>(loop)];
  set_subnormals(subnormals_);
  uint8_t* scratch = memory_.scratch + thread * memory_.scratch_stride;
  for (size_t i = range.first_step; begin < end; ++i) {
    const Step& step = steps_[i];
    if (begin < step.tiles) step.kernel(step.args, scratch, begin, std::min(end, step.tiles));
    begin = std::max(begin - step.tiles, int64_t{0});
    end -= step.tiles;
  }
}

void CpuProgram::finished(int loop) {
  const auto index = static_cast<size_t>(loop);
  if (failed_step_ < 0 && __atomic_load_n(memory_.error, __ATOMIC_RELAXED) != 0) blame(loops_[index]);
  if (times_.empty()) return;
  const uint64_t now = now_ns();
  times_[index] = now - loop_start_;
  loop_start_ = now;
}

/// Steps of one loop share the error word at the same time: the first that can have stored it is to blame.
void CpuProgram::blame(const Loop& loop) {
  for (size_t i = loop.first_step; i < loop.end_step && failed_step_ < 0; ++i) {
    if (steps_[i].may_fail) failed_step_ = static_cast<int>(i);
  }
}

}  // namespace tw::runtime
