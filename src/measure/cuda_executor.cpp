#include "measure/cuda_executor.h"

#ifdef TW_RUNTIME_CUDA
#include <algorithm>
#include <cmath>

#include "measure/slots.h"
#include "runtime/device/cuda/context.h"
#include "runtime/device/cuda/modules.h"
#include "runtime/format/error.h"
#endif

namespace tw::measure {

#ifdef TW_RUNTIME_CUDA
namespace {

namespace cuda = runtime::cuda;

constexpr int kOrdinal = 0;           // CUDA_VISIBLE_DEVICES chooses among several
constexpr uint8_t kUnwritten = 0xff;  // all bits set is NaN in every float type
// One of several copies is used in turn: no instruction takes lines out of a GPU's cache, but more than it holds leaves
// by itself.
constexpr CacheState kCopied = CacheState::kCold;
constexpr double kMaxCopyBytes = 1e9;
constexpr int64_t kMaxRepetitions = 1024;
// Runs in a row that go through all copies, at most. Where those take longer, what moves out of the L2 cache for them,
// at 3 TB/s or so, is a hundredth of their time.
constexpr double kRotationNs = 3e6;
constexpr double kIdleNs = 50e6;    // without work for so long, a GPU may have lowered its clock
constexpr double kWarmUpNs = 20e6;  // of work before anything is timed then

struct Block {
  cuda::DeviceMemory memory;
  cuda::DevicePtr data = 0;
  int64_t bytes = 0;
};

struct LoadedOnGpu {
  Workload workload;
  int64_t copies = 1;
  std::vector<cuda::DevicePtr> data;  // of buffer b in copy c: data[c * buffers + b]
  format::Manifest manifest;
  std::optional<cuda::Modules> modules;
  std::optional<cuda::Loaded> model;
  std::unique_ptr<cuda::CudaContext> context;
  int64_t repetitions = 0;  // of the context's only entry
  double run_ns = 0;        // of one run, roughly
};

class CudaExecutor final : public SlotExecutor<LoadedOnGpu, Block> {
 public:
  CudaExecutor(const cuda::Driver& driver, const std::string& architecture)
      : driver_(driver), gpu_(driver, kOrdinal, architecture) {}

  int threads() const override { return 1; }
  bool is_usable() const override;
  void load(int64_t slot, const Workload& workload, double rotate_bytes, int threads) override;
  Ran run(int64_t slot, Request::Outputs outputs) override;
  std::vector<Sample> sample(int64_t slot, int64_t repetitions, int64_t samples) override;

 private:
  using Loaded = LoadedOnGpu;

  Block make_block(int64_t bytes, size_t ordinal) override;
  void fill(Block& block, const BufferSpec& spec, const Block* same) override;
  void guard(Block& block) override;
  bool is_guarded(const Block& block) override;
  void load_code(Loaded& loaded) const;
  void add_entry(Loaded& loaded, int64_t repetitions) const;
  void build(Loaded& loaded, int64_t repetitions) const;
  void warm_up(Loaded& loaded);
  std::vector<std::byte> fetch(cuda::DevicePtr from, int64_t bytes) const;

  const cuda::Driver& driver_;
  cuda::Gpu gpu_;
  double busy_until_ = -INFINITY;  // when the GPU was last seen to work
};

// A kernel's fault stays: every call of this process fails after it.
bool CudaExecutor::is_usable() const {
  size_t free = 0, total = 0;
  cuda::ContextHandle popped = nullptr;
  if (driver_.context_push(gpu_.context()) != cuda::kSuccess) return false;
  const bool usable =
      driver_.stream_synchronize(nullptr) == cuda::kSuccess && driver_.mem_get_info(&free, &total) == cuda::kSuccess;
  driver_.context_pop(&popped);
  return usable;
}

Block CudaExecutor::make_block(int64_t bytes, size_t) {
  Block block;
  block.memory = cuda::DeviceMemory(gpu_, static_cast<size_t>(bytes + 2 * kGuardBytes), "a buffer to measure with");
  block.data = block.memory.address() + kGuardBytes;
  block.bytes = bytes;
  return block;
}

// Kernels that write to it are not noticed, other than on a CPU: emitted text has inputs const.
void CudaExecutor::fill(Block& block, const BufferSpec& spec, const Block* same) {
  if (block.bytes == 0) return;
  const auto size = static_cast<size_t>(block.bytes);
  if (same != nullptr)
    return driver_.check(driver_.copy_on_device(block.data, same->data, size, nullptr), "copy a buffer");
  const std::vector<std::byte> bytes = storage_bytes(spec);
  driver_.check(driver_.copy_to_device(block.data, bytes.data(), size, nullptr), "fill a buffer");
  driver_.check(driver_.stream_synchronize(nullptr), "fill a buffer");
}

void CudaExecutor::guard(Block& block) {
  for (const cuda::DevicePtr at : {block.data - kGuardBytes, block.data + static_cast<cuda::DevicePtr>(block.bytes)})
    driver_.check(driver_.memset(at, kGuardByte, kGuardBytes), "guard a buffer");
}

bool CudaExecutor::is_guarded(const Block& block) {
  const auto untouched = [&](cuda::DevicePtr at) {
    return std::ranges::all_of(fetch(at, kGuardBytes), [](std::byte b) { return b == std::byte{kGuardByte}; });
  };
  return untouched(block.data - kGuardBytes) && untouched(block.data + static_cast<cuda::DevicePtr>(block.bytes));
}

std::vector<std::byte> CudaExecutor::fetch(cuda::DevicePtr from, int64_t bytes) const {
  std::vector<std::byte> out(static_cast<size_t>(bytes));
  if (out.empty()) return out;
  driver_.check(driver_.copy_to_host(out.data(), from, out.size(), nullptr), "read a buffer");
  driver_.check(driver_.stream_synchronize(nullptr), "read a buffer");
  return out;
}

void CudaExecutor::load(int64_t slot, const Workload& workload, double rotate_bytes, int) {
  check_workload(workload);
  slots_.erase(slot);
  const cuda::Current current(gpu_);
  auto loaded = std::make_unique<Loaded>();
  loaded->workload = workload;
  loaded->copies = count_copies(workload, kCopied, rotate_bytes, kMaxCopyBytes);
  place_buffers(*loaded, kCopied);
  load_code(*loaded);
  build(*loaded, 1);
  slots_[slot] = std::move(loaded);
}

void CudaExecutor::load_code(Loaded& loaded) const {
  const Workload& w = loaded.workload;
  for (const WorkStep& step : w.steps) {
    if (step.cuda.call.empty()) loaded.manifest.kernels.push_back({step.kernel, "cubin", 0, 0});
  }
  add_entry(loaded, 1);
  const auto* code = reinterpret_cast<const uint8_t*>(w.code.data());
  loaded.modules.emplace(gpu_, loaded.manifest, [&](const std::string&) { return format::Bytes{code, w.code.size()}; });
  loaded.model.emplace(cuda::Loaded{gpu_, loaded.manifest, loaded.modules->functions(), 0});
}

// The manifest's only entry: `repetitions` runs, one after the other on each of several copies of L2-cold buffers, each
// step behind the one before. The buffers are weights at their addresses, since those begin at 0.
void CudaExecutor::add_entry(Loaded& loaded, int64_t repetitions) const {
  const Workload& w = loaded.workload;
  const auto buffers = static_cast<int64_t>(w.buffers.size());
  format::Entry entry;
  for (size_t i = 0; i < loaded.data.size(); ++i) {
    entry.buffers.push_back({format::Place::kWeights, 0, static_cast<int64_t>(loaded.data[i]),
                             storage_size(w.buffers[i % w.buffers.size()]), ""});
  }
  for (int64_t r = 0; r < repetitions; ++r) {
    int64_t kernel = 0;
    for (const WorkStep& step : w.steps) {
      std::vector<int64_t> args = step.args;
      for (int64_t& arg : args) arg += r % loaded.copies * buffers;
      if (r == 0 && step.cuda.zero_bytes > 0) entry.zeros.push_back(step.cuda.zeros(args.back()));
      entry.cuda_steps.push_back(format::step_over_tiles(kernel, step.tiles, step.cuda, args));
      if (const int64_t before = std::ssize(entry.cuda_steps) - 2; before >= 0)
        entry.cuda_steps.back().after = {before};
      kernel += step.cuda.call.empty() ? 1 : 0;
    }
  }
  loaded.manifest.entries = {std::move(entry)};
}

// The runtime's context for a number of runs.
void CudaExecutor::build(Loaded& loaded, int64_t repetitions) const {
  if (loaded.repetitions == repetitions) return;
  loaded.repetitions = 0;
  loaded.context.reset();
  add_entry(loaded, repetitions);
  loaded.context = std::make_unique<cuda::CudaContext>(*loaded.model, runtime::Options(), cuda::DevicePtr{0});
  loaded.repetitions = repetitions;
}

// Brings the clock up after a rest, by work of the candidate's own.
void CudaExecutor::warm_up(Loaded& loaded) {
  const double start = now_ns();
  if (start - busy_until_ < kIdleNs) return;
  while (now_ns() - start < kWarmUpNs) loaded.context->run(0, nullptr, nullptr);
}

Executor::Ran CudaExecutor::run(int64_t slot, Request::Outputs outputs) {
  Loaded& loaded = this->slot(slot);
  const cuda::Current current(gpu_);
  build(loaded, 1);
  const Workload& w = loaded.workload;
  for (size_t b = 0; b < w.buffers.size(); ++b) {
    // What is left from another candidate must not pass for this one's.
    const auto bytes = static_cast<size_t>(storage_size(w.buffers[b]));
    if (is_written(w.buffers[b]) && bytes > 0)
      driver_.check(driver_.memset(loaded.data[b], kUnwritten, bytes), "clear a buffer");
  }
  loaded.context->run(0, nullptr, nullptr);
  warm_up(loaded);
  uint64_t warm_ns = 0;
  loaded.context->measure(0, nullptr, nullptr, {&warm_ns, 1});
  busy_until_ = now_ns();
  check_guards();
  Ran ran;
  ran.warm_ns = loaded.run_ns = static_cast<double>(warm_ns);
  std::vector<std::byte> fetched;
  const auto storage = [&](size_t b) {
    fetched = fetch(loaded.data[b], storage_size(w.buffers[b]));
    return std::span<const std::byte>(fetched);
  };
  take_outputs(w, storage, outputs, ran);
  return ran;
}

std::vector<Sample> CudaExecutor::sample(int64_t slot, int64_t repetitions, int64_t samples) {
  Loaded& loaded = this->slot(slot);
  TW_CHECK(repetitions > 0 && repetitions <= kMaxRepetitions && samples >= 0, "{} repetitions", repetitions);
  const double rotation = std::ceil(kRotationNs / std::max(loaded.run_ns, 1.0));
  const int64_t around = std::min(loaded.copies, static_cast<int64_t>(rotation));
  const cuda::Current current(gpu_);
  build(loaded, std::max(repetitions, around));
  warm_up(loaded);
  std::vector<uint64_t> times(static_cast<size_t>(samples));
  loaded.context->measure(0, nullptr, nullptr, times);
  busy_until_ = now_ns();
  std::vector<Sample> out;
  for (const uint64_t ns : times)
    out.push_back({static_cast<double>(ns) / static_cast<double>(loaded.repetitions), true});
  return out;
}

}  // namespace

Result<std::string> find_gpu(const std::string& architecture) {
  try {
    return cuda::gpu_name(cuda::open_driver(), kOrdinal, architecture);
  } catch (const format::Error& error) {
    return declined("{}", error.what());
  }
}

std::unique_ptr<Executor> make_cuda_executor(const std::string& architecture) {
  return make_cuda_executor(architecture, cuda::open_driver());
}

std::unique_ptr<Executor> make_cuda_executor(const std::string& architecture, const cuda::Driver& driver) {
  return std::make_unique<CudaExecutor>(driver, architecture);
}

#else

Result<std::string> find_gpu(const std::string&) { return declined("this build has no CUDA (TW_CUDA=OFF)"); }

std::unique_ptr<Executor> make_cuda_executor(const std::string&) {
  throw Unsupported("this build has no CUDA (TW_CUDA=OFF)");
}

#endif

}  // namespace tw::measure
