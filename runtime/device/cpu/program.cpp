#include "runtime/device/cpu/program.h"

#include <algorithm>
#include <chrono>

#include "runtime/format/turns.h"

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
  format::for_each_step(entry, entry.cpu_steps.size(),
                        [&](size_t step, auto, bool) { count += entry.cpu_steps[step].args.size(); });
  return count;
}

}  // namespace

CpuProgram::CpuProgram(const format::Manifest& manifest, const format::Entry& entry, const CodeMap& code,
                       const CpuMemory& memory, Profile profile)
    : manifest_(manifest),
      entry_(entry),
      memory_(memory),
      subnormals_(manifest.flushes_subnormals ? Subnormals::kFlushed : Subnormals::kKept) {
  const size_t steps = entry.cpu_steps.size();
  args_.reserve(count_args(entry));  // steps keep pointers into it
  steps_.reserve(format::steps_run(entry, steps));
  if (profile == Profile::kOn) times_.resize(steps);
  format::for_each_step(entry, steps, [&](size_t number, std::span<const int64_t> turns, bool first_of_turn) {
    const bool waits = first_of_turn || entry.cpu_steps[number].after || profile == Profile::kOn;
    add_step(number, turns, code, waits ? Wait::kForAll : Wait::kNone);
  });
}

void CpuProgram::add_step(size_t number, std::span<const int64_t> turns, const CodeMap& code, Wait wait) {
  const format::CpuStep& step = entry_.cpu_steps[number];
  const size_t first = args_.size();
  bool may_fail = false;
  for (const int64_t arg : step.args) {
    const Buffer buffer = format::located(entry_, arg, turns);
    if (buffer.place == Place::kInput || buffer.place == Place::kOutput)
      bindings_.push_back({args_.size(), buffer.place, buffer.index, buffer.offset});
    may_fail |= buffer.place == Place::kError;
    args_.push_back(const_cast<void*>(address(buffer)));
  }
  const KernelFn kernel = code.kernel(manifest_.kernels[static_cast<size_t>(step.kernel)].offset);
  steps_.push_back({kernel, args_.data() + first, step.tiles, static_cast<int>(number), may_fail});
  if (!join_last_loop(wait)) loops_.push_back({steps_.size() - 1, steps_.size(), step.tiles, Order::kNone});
}

// The last step, if it may: one of one tile behind others of one tile each is work of the same thread.
bool CpuProgram::join_last_loop(Wait wait) {
  if (loops_.empty()) return false;
  Loop& loop = loops_.back();
  const bool is_one = loop.end_step - loop.first_step == 1, has_one_tile = steps_.back().tiles == 1;
  const bool follows = times_.empty() && has_one_tile && loop.tiles == 1 && (is_one || loop.order == Order::kSteps);
  if (wait == Wait::kForAll && !follows) return false;
  if (wait == Wait::kNone && loop.order == Order::kSteps) return false;
  loop.end_step = steps_.size();
  if (wait == Wait::kForAll) {
    loop.order = Order::kSteps;
  } else {
    loop.tiles += steps_.back().tiles;
  }
  return true;
}

const void* CpuProgram::address(const Buffer& buffer) const {
  if (buffer.place == Place::kError) return memory_.error;
  if (buffer.place == Place::kExtent) return memory_.extents + buffer.index;
  if (buffer.place == Place::kArena) return memory_.arena + buffer.offset;
  if (buffer.place == Place::kWeights) return memory_.weights + buffer.offset;
  if (buffer.place == Place::kState || buffer.place == Place::kNextState)
    return memory_.state + manifest_.states[static_cast<size_t>(buffer.index)].offset + buffer.offset;
  return nullptr;
}

void CpuProgram::bind(const DLTensor* inputs, const DLTensor* outputs) {
  for (const Binding& binding : bindings_) {
    const DLTensor& tensor = (binding.place == Place::kInput ? inputs : outputs)[binding.index];
    args_[binding.slot] = static_cast<uint8_t*>(tensor.data) + tensor.byte_offset + binding.offset;
  }
  failed_step_ = -1;
  if (!times_.empty()) loop_start_ = now_ns();
}

void CpuProgram::run(int loop, int64_t begin, int64_t end, int thread) {
  const Loop& range = loops_[static_cast<size_t>(loop)];
  set_subnormals(subnormals_);
  uint8_t* scratch = memory_.scratch + thread * memory_.scratch_stride;
  if (range.order == Order::kSteps) return run_steps(range, scratch);
  for (size_t i = range.first_step; begin < end; ++i) {
    const Step& step = steps_[i];
    if (begin < step.tiles) step.kernel(step.args, scratch, begin, std::min(end, step.tiles));
    begin = std::max(begin - step.tiles, int64_t{0});
    end -= step.tiles;
  }
}

void CpuProgram::run_steps(const Loop& loop, void* scratch) {
  for (size_t i = loop.first_step; i < loop.end_step; ++i) {
    const Step& step = steps_[i];
    step.kernel(step.args, scratch, 0, 1);
    if (!step.may_fail || failed_step_ >= 0) continue;
    error_ = __atomic_load_n(memory_.error, __ATOMIC_RELAXED);
    if (error_ != 0) failed_step_ = step.number;
  }
}

void CpuProgram::finished(int loop) {
  const auto index = static_cast<size_t>(loop);
  if (failed_step_ < 0) blame(loops_[index], __atomic_load_n(memory_.error, __ATOMIC_RELAXED));
  if (times_.empty()) return;
  const uint64_t now = now_ns();
  if (loop == 0) std::ranges::fill(times_, 0);
  times_[static_cast<size_t>(steps_[loops_[index].first_step].number)] += now - loop_start_;
  loop_start_ = now;
}

/// Steps of one loop share the error word at the same time: the first that can have stored it is to blame.
void CpuProgram::blame(const Loop& loop, int32_t error) {
  if (error == 0) return;
  error_ = error;
  for (size_t i = loop.first_step; i < loop.end_step && failed_step_ < 0; ++i) {
    if (steps_[i].may_fail) failed_step_ = steps_[i].number;
  }
}

}  // namespace tw::runtime
