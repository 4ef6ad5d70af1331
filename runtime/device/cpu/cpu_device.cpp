// The CPU as a device: checks the machine, maps the code, owns a context's arena and scratch, runs on the thread pool.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "runtime/device.h"
#include "runtime/device/cpu/program.h"
#include "runtime/format/error.h"
#include "runtime/host/limits.h"
#include "runtime/staging.h"

namespace tw::runtime {
namespace {

using format::ErrorCode;

constexpr int64_t kScratchAlignment = 4096;  // own pages for each thread: no false sharing, local on NUMA machines

class CpuState : public DeviceState {
 public:
  CpuState(int64_t bytes, const Options& options)
      : memory_(Memory::allocate(static_cast<size_t>(bytes), options.allocator, "the state")) {
    memory_.populate();
  }
  void get(StateRange range, void* to, DLDevice) override {
    if (range.bytes != 0) std::memcpy(to, memory_.data() + range.offset, static_cast<size_t>(range.bytes));
  }
  void set(StateRange range, const void* from, DLDevice) override {
    if (range.bytes != 0) std::memcpy(memory_.data() + range.offset, from, static_cast<size_t>(range.bytes));
  }
  void to_host(void* to, const void* from, DLDevice, size_t bytes) override { std::memcpy(to, from, bytes); }
  void from_host(void* to, DLDevice, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void clear() override {
    if (memory_.size() != 0) std::memset(memory_.data(), 0, memory_.size());
  }
  uint8_t* data() const { return memory_.data(); }

 private:
  Memory memory_;
};

class CpuContext : public DeviceContext {
 public:
  CpuContext(const format::Artefact& artefact, const CodeMap& code, const Options& options, const CpuState& state)
      : pool_threads_(pool_threads(options)), staging_(artefact.manifest(), options) {
    const format::Manifest& manifest = artefact.manifest();
    int64_t arena_bytes = 0, scratch_bytes = 0;
    for (const format::Entry& entry : manifest.entries) {
      arena_bytes = std::max(arena_bytes, entry.arena_bytes);
      scratch_bytes = std::max(scratch_bytes, entry.scratch_bytes_per_thread);
    }
    CpuMemory memory = allocate(artefact, arena_bytes, scratch_bytes, options);
    memory.state = state.data();
    const auto profile = options.profile != 0 ? CpuProgram::Profile::kOn : CpuProgram::Profile::kOff;
    programs_.reserve(manifest.entries.size());
    for (const format::Entry& entry : manifest.entries) {
      programs_.push_back(std::make_unique<CpuProgram>(manifest, entry, code, memory, profile));
    }
    options.log(TW_LOG_INFO, format::join("context: arena ", arena_bytes, " bytes, scratch ", scratch_bytes,
                                          " bytes on each of ", pool_threads_, " threads"));
  }

  void run(int entry, const DLTensor* inputs, const DLTensor* outputs) override {
    with_tensors(entry, inputs, outputs, [&] { run_bound(); });
  }

  void set_extents(const Extents& extents) override { extents_ = extents; }

  void measure(int entry, const DLTensor* inputs, const DLTensor* outputs, std::span<uint64_t> times_ns) override {
    using Clock = std::chrono::steady_clock;
    with_tensors(entry, inputs, outputs, [&] {
      for (uint64_t& time : times_ns) {
        const Clock::time_point start = Clock::now();
        run_bound();
        time = static_cast<uint64_t>(std::chrono::nanoseconds(Clock::now() - start).count());
      }
    });
  }

  void read_buffer(int entry, int buffer, void* destination) override {
    const CpuProgram& program = *programs_[static_cast<size_t>(entry)];
    const format::Buffer& place = program.entry().buffers[static_cast<size_t>(buffer)];
    if (place.bytes != 0) std::memcpy(destination, program.address(place), static_cast<size_t>(place.bytes));
  }

  std::span<const uint64_t> step_times() const override {
    return current_ == nullptr ? std::span<const uint64_t>() : current_->step_times();
  }

  int threads() const override { return pool_threads_; }

 private:
  /// `body` runs the entry, bound to tensors of its own size.
  template <typename Body>
  void with_tensors(int entry, const DLTensor* inputs, const DLTensor* outputs, const Body& body) {
    current_ = programs_[static_cast<size_t>(entry)].get();
    const EntryShapes shapes(current_->entry(), extents_);
    const bool as_given = shapes.is_at_bounds();
    if (!as_given) staging_.stage(shapes, inputs, outputs);
    as_given ? current_->bind(inputs, outputs) : current_->bind(staging_.inputs(), staging_.outputs());
    body();
    if (!as_given) staging_.finish(shapes, outputs);
  }

  void run_bound() {
    error_ = 0;
    // Without a free pool the caller does all tiles alone: slower, the same bits.
    const int threads = pool_threads_ == 1 ? 1 : std::min(pool_threads_, ThreadPool::of_process().usable_cpus());
    if (threads == 1 || !ThreadPool::of_process().try_run(threads, *current_)) run_alone(*current_);
    const int failed = current_->failed_step();
    if (failed >= 0) {
      const std::string& name = current_->entry().cpu_steps[static_cast<size_t>(failed)].name;
      format::fail(ErrorCode::kInputValue, value_error_message(format::join("step '", name, "'"), current_->error()));
    }
  }

  static int pool_threads(const Options& options) {
    if (options.threads == 1) return 1;
    const int available = ThreadPool::of_process().size();
    if (options.threads > available) {
      options.log(TW_LOG_WARNING, format::join(options.threads, " threads are asked for, this process may use ",
                                               available, ": it runs on ", available));
    }
    return std::min(options.threads == 0 ? host::usable_cpus() : options.threads, available);
  }

  CpuMemory allocate(const format::Artefact& artefact, int64_t arena_bytes, int64_t scratch_bytes,
                     const Options& options) {
    CpuMemory memory;
    arena_ = Memory::allocate(static_cast<size_t>(arena_bytes), options.allocator, "the arena");
    arena_.populate();
    memory.scratch_stride = (scratch_bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
    // The largest scratch area a manifest may ask for is 2^47 bytes and threads are at most 2^15: no overflow.
    scratch_ = Memory::allocate(static_cast<size_t>(memory.scratch_stride * pool_threads_), options.allocator,
                                "scratch memory");
    scratch_.populate();
    memory.arena = arena_.data();
    memory.scratch = scratch_.data();
    // Kernels get one kind of pointer; the pages of the weights are read-only all the same.
    memory.weights = const_cast<uint8_t*>(artefact.section("weights").data());
    memory.error = &error_;
    memory.extents = extents_.data();
    return memory;
  }

  int pool_threads_;
  Memory arena_;
  Memory scratch_;
  int32_t error_ = 0;
  Extents extents_ = {};
  Staging staging_;
  std::vector<std::unique_ptr<CpuProgram>> programs_;  // one for each entry
  CpuProgram* current_ = nullptr;                      // of the last run
};

class CpuModel : public DeviceModel {
 public:
  explicit CpuModel(const format::Artefact& artefact) : artefact_(artefact), code_(artefact.section("code")) {}
  std::unique_ptr<DeviceState> create_state(const Options& options) const override {
    return std::make_unique<CpuState>(artefact_.manifest().state_bytes(), options);
  }
  std::unique_ptr<DeviceContext> create_context(const Options& options, DeviceState& state) const override {
    return std::make_unique<CpuContext>(artefact_, code_, options, static_cast<CpuState&>(state));
  }
  bool accepts(DLDevice device) const override {
    return device.device_type == kDLCPU || device.device_type == kDLCUDAHost || device.device_type == kDLCUDAManaged;
  }

 private:
  const format::Artefact& artefact_;
  CodeMap code_;
};

}  // namespace

std::unique_ptr<DeviceModel> load_cpu_model(const format::Artefact& artefact, const Options& options) {
  options.log(TW_LOG_INFO,
              format::join("model for ", artefact.manifest().targets.front().arch, ": ",
                           artefact.manifest().entries.size(), " entries, ", artefact.section("code").size(),
                           " bytes of code, ", artefact.section("weights").size(), " bytes of weights"));
  return std::make_unique<CpuModel>(artefact);
}

}  // namespace tw::runtime
