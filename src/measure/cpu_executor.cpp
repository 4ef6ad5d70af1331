#include <dlpack/dlpack.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "measure/slots.h"
#include "runtime/device/cpu/program.h"
#include "runtime/host/limits.h"
#include "runtime/memory.h"
#include "support/join.h"
#include "support/quiet.h"

namespace tw::measure {
namespace {

constexpr int64_t kStaggerBytes = 320;    // between the page offsets of two buffers: they must not share cache sets
constexpr int64_t kScratchStride = 4096;  // as the runtime's
constexpr double kMaxCopyBytes = 256e6;
constexpr int64_t kMaxFlushBytes = int64_t{256} << 20;

// Moves what caches hold of these bytes to memory. More than any cache holds leaves them by itself.
void flush_caches([[maybe_unused]] const uint8_t* data, [[maybe_unused]] int64_t bytes) {
#if defined(__x86_64__)
  constexpr int64_t kUsualLine = 64;
  if (bytes > kMaxFlushBytes) return;
  const int64_t known = sysconf(_SC_LEVEL1_DCACHE_LINESIZE);
  const int64_t line = known > 0 ? known : kUsualLine;
  for (int64_t at = 0; at < bytes; at += line) _mm_clflush(data + at);
  _mm_mfence();
#endif
}

void check_code(const Workload& w) {
  const auto code = static_cast<int64_t>(w.code.size());
  for (const WorkStep& s : w.steps) {
    TW_CHECK(s.offset >= 0 && s.offset < code, "a kernel at {} in {} bytes of code", s.offset, code);
    TW_CHECK(s.scratch_bytes >= 0, "{} bytes of scratch memory", s.scratch_bytes);
  }
}

struct Block {
  runtime::Memory memory;
  uint8_t* data = nullptr;
  int64_t bytes = 0;
};

struct LoadedOnCpu {
  LoadedOnCpu(const Workload& w, double rotate_bytes, int threads)
      : workload(w),
        copies(count_copies(w, CacheState::kL2Cold, rotate_bytes, kMaxCopyBytes)),
        threads(threads),
        code({reinterpret_cast<const uint8_t*>(w.code.data()), w.code.size()}) {}

  Workload workload;
  int64_t copies;
  int threads;
  runtime::CodeMap code;
  runtime::Memory scratch;
  int64_t scratch_stride = 0;
  int32_t error = 0;
  std::vector<uint8_t*> data;  // of buffer b in copy c: data[c * buffers + b]
  int64_t repetitions = 0;     // of the program
  int64_t slots = 0;           // copies that one sample uses
  format::Manifest manifest;   // the program keeps references into it
  std::unique_ptr<runtime::CpuProgram> program;
};

class CpuExecutor final : public SlotExecutor<LoadedOnCpu, Block> {
 public:
  CpuExecutor() : watches_(static_cast<size_t>(runtime::ThreadPool::of_process().size())) {}
  int threads() const override { return static_cast<int>(watches_.size()); }

  // What kernels must not write is read-only.
  void load(int64_t slot, const Workload& workload, double rotate_bytes, int threads) override;
  Ran run(int64_t slot, Request::Outputs outputs) override;
  // In one parallel region; of one run, for which buffers were made cold, when there are such.
  std::vector<Sample> sample(int64_t slot, int64_t repetitions, int64_t samples) override;

 private:
  using Loaded = LoadedOnCpu;
  class Region;

  Block make_block(int64_t bytes, size_t ordinal) override;
  void fill(Block& block, const BufferSpec& spec, const Block* same) override;
  void guard(Block& block) override;
  bool is_guarded(const Block& block) override;
  void build(Loaded& loaded, int64_t repetitions);
  void bind(Loaded& loaded);
  Sample time_once(Loaded& loaded);

  std::vector<QuietWatch> watches_;  // of each thread
  int64_t turn_ = 0;                 // of the copies, whichever candidate uses them
};

/// One sample as a list of loops: all threads start watching, the program's loops run, all threads stop watching. Each
/// watch is its own thread's, so threads wait for each other at both ends; one that does not come in time is a
/// disturbance.
class CpuExecutor::Region final : public runtime::Loops {
 public:
  Region(runtime::CpuProgram& program, std::vector<QuietWatch>& watches, int threads)
      : program_(program), watches_(watches), threads_(threads) {}

  int count() const override { return program_.count() + 2; }
  int64_t tiles(int loop) const override { return is_watch(loop) ? threads_ : program_.tiles(loop - 1); }
  void run(int loop, int64_t begin, int64_t end, int thread) override {
    if (!is_watch(loop)) return program_.run(loop - 1, begin, end, thread);
    QuietWatch& watch = watches_[static_cast<size_t>(thread)];
    if (loop == 0) watch.start();
    if (!meet(loop == 0 ? started_ : stopped_)) quiet_ = false;
    if (loop != 0 && !watch.stop()) quiet_ = false;
  }
  void finished(int loop) override {
    if (loop == 0) start_ = now_ns();
    if (loop == program_.count()) end_ = now_ns();
    if (!is_watch(loop)) program_.finished(loop - 1);
  }

  double elapsed_ns() const { return end_ - start_; }
  bool quiet() const { return quiet_; }

 private:
  bool is_watch(int loop) const { return loop == 0 || loop == program_.count() + 1; }
  // Whether all threads have come within a time in which a sleeping one wakes up.
  bool meet(std::atomic<int>& come) const {
    ++come;
    const double until = now_ns() + kMeetNs;
    while (come < threads_ && now_ns() < until) continue;
    return come >= threads_;
  }

  static constexpr double kMeetNs = 2e6;

  runtime::CpuProgram& program_;
  std::vector<QuietWatch>& watches_;
  int threads_;
  double start_ = 0;
  double end_ = 0;
  std::atomic<int> started_{0}, stopped_{0};
  std::atomic<bool> quiet_{true};
};

Block CpuExecutor::make_block(int64_t bytes, size_t ordinal) {
  const int64_t stagger = static_cast<int64_t>(ordinal) * kStaggerBytes % kGuardBytes;
  Block block;
  block.memory = runtime::Memory::map(static_cast<size_t>(bytes + 3 * kGuardBytes), "a buffer to measure with");
  block.memory.populate();
  block.data = block.memory.data() + kGuardBytes + stagger;
  block.bytes = bytes;
  return block;
}

void CpuExecutor::fill(Block& block, const BufferSpec& spec, const Block* same) {
  if (same != nullptr) {
    std::copy_n(same->data, block.bytes, block.data);
  } else {
    std::ranges::copy(storage_bytes(spec), reinterpret_cast<std::byte*>(block.data));
  }
  block.memory.make_read_only();
}

void CpuExecutor::guard(Block& block) {
  std::fill(block.memory.data(), block.data, kGuardByte);
  std::fill(block.data + block.bytes, block.memory.data() + block.memory.size(), kGuardByte);
}

bool CpuExecutor::is_guarded(const Block& block) {
  const auto untouched = [](const uint8_t* from, const uint8_t* to) {
    return std::all_of(from, to, [](uint8_t byte) { return byte == kGuardByte; });
  };
  const uint8_t* begin = block.memory.data();
  return untouched(begin, block.data) && untouched(block.data + block.bytes, begin + block.memory.size());
}

void CpuExecutor::load(int64_t slot, const Workload& workload, double rotate_bytes, int threads) {
  check_workload(workload);
  check_code(workload);
  const int team = std::min(threads <= 0 ? host::usable_cpus() : threads, this->threads());
  auto loaded = std::make_unique<Loaded>(workload, rotate_bytes, team);
  int64_t scratch = 0;
  for (const WorkStep& s : workload.steps) scratch = std::max(scratch, s.scratch_bytes);
  loaded->scratch_stride = (scratch + kScratchStride - 1) / kScratchStride * kScratchStride;
  loaded->scratch = runtime::Memory::map(static_cast<size_t>(loaded->scratch_stride * team), "scratch memory");
  loaded->scratch.populate();
  place_buffers(*loaded, CacheState::kL2Cold);
  build(*loaded, 1);
  slots_[slot] = std::move(loaded);
}

// The runtime's program of `repetitions` runs, one after the other on each of several copies of L2-cold buffers.
void CpuExecutor::build(Loaded& loaded, int64_t repetitions) {
  if (loaded.repetitions == repetitions) return;
  const Workload& w = loaded.workload;
  const auto buffers = static_cast<int64_t>(w.buffers.size());
  loaded.program.reset();
  loaded.manifest = {};
  loaded.slots = std::min(repetitions, loaded.copies);
  format::Entry entry;
  for (int64_t i = 0; i < loaded.slots * buffers; ++i) entry.buffers.push_back({format::Place::kInput, i, 0, 0, ""});
  for (const WorkStep& s : w.steps) loaded.manifest.kernels.push_back({"", "code", s.offset, 0});
  for (int64_t r = 0; r < repetitions; ++r) {
    for (size_t s = 0; s < w.steps.size(); ++s) {
      std::vector<int64_t> args = w.steps[s].args;
      for (int64_t& arg : args) arg += r % loaded.slots * buffers;
      entry.cpu_steps.push_back({static_cast<int64_t>(s), std::move(args), w.steps[s].tiles, true, ""});
    }
  }
  loaded.manifest.entries.push_back(std::move(entry));
  const runtime::CpuMemory memory = {nullptr, nullptr, loaded.scratch.data(), loaded.scratch_stride, &loaded.error};
  loaded.program = std::make_unique<runtime::CpuProgram>(loaded.manifest, loaded.manifest.entries[0], loaded.code,
                                                         memory, runtime::CpuProgram::Profile::kOff);
  loaded.repetitions = repetitions;
}

// The copies whose turn it is.
void CpuExecutor::bind(Loaded& loaded) {
  const size_t buffers = loaded.workload.buffers.size();
  std::vector<DLTensor> tensors(static_cast<size_t>(loaded.slots) * buffers);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t copy = (turn_ + static_cast<int64_t>(i / buffers)) % loaded.copies;
    tensors[i].data = loaded.data[static_cast<size_t>(copy) * buffers + i % buffers];
  }
  loaded.program->bind(tensors.data(), nullptr);
  turn_ += loaded.slots;
}

Sample CpuExecutor::time_once(Loaded& loaded) {
  bind(loaded);
  for (size_t b = 0; b < loaded.workload.buffers.size(); ++b) {
    const BufferSpec& spec = loaded.workload.buffers[b];
    if (spec.cache_state == CacheState::kCold) flush_caches(loaded.data[b], storage_size(spec));
  }
  Region region(*loaded.program, watches_, loaded.threads);
  const bool ran = runtime::ThreadPool::of_process().try_run(loaded.threads, region);
  TW_CHECK(ran, "the pool is busy");
  return {region.elapsed_ns() / static_cast<double>(loaded.repetitions), region.quiet()};
}

Executor::Ran CpuExecutor::run(int64_t slot, Request::Outputs outputs) {
  Loaded& loaded = this->slot(slot);
  build(loaded, 1);
  for (size_t b = 0; b < loaded.workload.buffers.size(); ++b) {
    // What is left from another candidate must not pass for this one's: all bits set is NaN in every float type.
    const BufferSpec& spec = loaded.workload.buffers[b];
    if (is_written(spec)) std::memset(loaded.data[b], 0xff, static_cast<size_t>(storage_size(spec)));
  }
  Ran ran;
  time_once(loaded);
  ran.warm_ns = time_once(loaded).nanoseconds;
  check_guards();
  const auto storage = [&](size_t b) {
    const auto* data = reinterpret_cast<const std::byte*>(loaded.data[b]);
    return std::span(data, static_cast<size_t>(storage_size(loaded.workload.buffers[b])));
  };
  take_outputs(loaded.workload, storage, outputs, ran);
  return ran;
}

std::vector<Sample> CpuExecutor::sample(int64_t slot, int64_t repetitions, int64_t samples) {
  Loaded& loaded = this->slot(slot);
  TW_CHECK(repetitions > 0 && repetitions <= kMaxCopies * 16 && samples >= 0, "{} repetitions", repetitions);
  const auto cold = [](const BufferSpec& b) { return b.cache_state == CacheState::kCold; };
  build(loaded, std::ranges::any_of(loaded.workload.buffers, cold) ? 1 : repetitions);
  return by_index(samples, [&](int64_t s) { return time_once(loaded); });
}

}  // namespace

std::unique_ptr<Executor> make_cpu_executor() { return std::make_unique<CpuExecutor>(); }

}  // namespace tw::measure
