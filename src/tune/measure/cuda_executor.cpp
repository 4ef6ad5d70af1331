#include "tune/measure/cuda_executor.h"

#ifdef TW_RUNTIME_CUDA
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "runtime/device/cuda/context.h"
#include "runtime/device/cuda/modules.h"
#include "runtime/format/cuda_step.h"
#include "runtime/format/error.h"
#include "tune/measure/fill.h"
#endif

namespace tw::tune {

#ifdef TW_RUNTIME_CUDA
namespace {

namespace cuda = runtime::cuda;

constexpr int kOrdinal = 0;           // CUDA_VISIBLE_DEVICES chooses among several
constexpr uint8_t kUnwritten = 0xff;  // all bits set is NaN in every float type
// One of several copies is used in turn: no instruction takes lines out of a GPU's cache, but more than it holds leaves
// by itself.
constexpr Warmth kRotated = Warmth::kFlushed;
constexpr double kMaxCopyBytes = 1e9;
constexpr int64_t kMaxRepetitions = 1024;
// Runs in a row that go through all copies, at most. Where those take longer, what moves out of the L2 cache for them,
// at 3 TB/s or so, is a hundredth of their time.
constexpr double kRotationNs = 3e6;
constexpr double kIdleNs = 50e6;    // without work for so long, a GPU may have lowered its clock
constexpr double kWarmUpNs = 20e6;  // of work before anything is timed then

class CudaExecutor final : public Executor {
 public:
  CudaExecutor(const cuda::Driver& driver, const std::string& architecture)
      : driver_(driver), gpu_(driver, kOrdinal, architecture) {}

  int threads() const override { return 1; }
  bool is_usable() const override;
  void load(int64_t slot, const Workload& workload, double rotate_bytes, int threads) override;
  Ran run(int64_t slot, Request::Outputs outputs) override;
  std::vector<Sample> sample(int64_t slot, int64_t repetitions, int64_t samples) override;
  void reset() override;

 private:
  struct Block {
    cuda::DeviceMemory memory;
    cuda::DevicePtr data = 0;
    int64_t bytes = 0;
  };
  struct Loaded {
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

  Loaded& slot(int64_t slot);
  Block make_block(int64_t bytes) const;
  Block& input_block(const BufferSpec& spec, int64_t copy);
  Block& output_block(size_t ordinal, int64_t bytes);
  void guard(const Block& block) const;
  bool is_guarded(const Block& block) const;
  void check_guards() const;
  void place_buffers(Loaded& loaded);
  void load_code(Loaded& loaded) const;
  void add_entry(Loaded& loaded, int64_t repetitions) const;
  void build(Loaded& loaded, int64_t repetitions) const;
  void warm_up(Loaded& loaded);
  std::vector<std::byte> fetch(cuda::DevicePtr from, int64_t bytes) const;

  const cuda::Driver& driver_;
  cuda::Gpu gpu_;
  std::map<std::string, Block> inputs_;                  // by description and copy
  std::map<std::pair<size_t, int64_t>, Block> outputs_;  // by position and size
  std::map<int64_t, Loaded> slots_;
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

CudaExecutor::Loaded& CudaExecutor::slot(int64_t slot) {
  const auto found = slots_.find(slot);
  TW_CHECK(found != slots_.end(), "there is no workload {}", slot);
  return found->second;
}

CudaExecutor::Block CudaExecutor::make_block(int64_t bytes) const {
  Block block;
  block.memory = cuda::DeviceMemory(gpu_, static_cast<size_t>(bytes + 2 * kGuardBytes), "a buffer to measure with");
  block.data = block.memory.address() + kGuardBytes;
  block.bytes = bytes;
  return block;
}

// Kernels that write to it are not noticed, other than on a CPU: emitted text has inputs const.
CudaExecutor::Block& CudaExecutor::input_block(const BufferSpec& spec, int64_t copy) {
  const auto [found, fresh] = inputs_.try_emplace(fmt::format("{} {}", describe(spec), copy));
  Block& block = found->second;
  if (!fresh) return block;
  block = make_block(storage_size(spec));
  if (block.bytes == 0) return block;
  const auto size = static_cast<size_t>(block.bytes);
  if (copy > 0) {
    driver_.check(driver_.copy_on_device(block.data, input_block(spec, 0).data, size, nullptr), "copy a buffer");
  } else {
    const std::vector<std::byte> bytes = storage_bytes(spec);
    driver_.check(driver_.copy_to_device(block.data, bytes.data(), size, nullptr), "fill a buffer");
    driver_.check(driver_.stream_synchronize(nullptr), "fill a buffer");
  }
  return block;
}

CudaExecutor::Block& CudaExecutor::output_block(size_t ordinal, int64_t bytes) {
  const auto [found, fresh] = outputs_.try_emplace({ordinal, bytes});
  if (fresh) found->second = make_block(bytes);
  if (fresh) guard(found->second);
  return found->second;
}

void CudaExecutor::guard(const Block& block) const {
  for (const cuda::DevicePtr at : {block.data - kGuardBytes, block.data + static_cast<cuda::DevicePtr>(block.bytes)})
    driver_.check(driver_.memset(at, kGuardByte, kGuardBytes), "guard a buffer");
}

bool CudaExecutor::is_guarded(const Block& block) const {
  const auto untouched = [&](cuda::DevicePtr at) {
    return std::ranges::all_of(fetch(at, kGuardBytes), [](std::byte b) { return b == std::byte{kGuardByte}; });
  };
  return untouched(block.data - kGuardBytes) && untouched(block.data + static_cast<cuda::DevicePtr>(block.bytes));
}

void CudaExecutor::check_guards() const {
  int64_t overwritten = -1;
  for (const auto& [key, block] : outputs_) {
    if (is_guarded(block)) continue;
    overwritten = block.bytes;
    guard(block);  // the next candidate is not to blame
  }
  TW_CHECK(overwritten < 0, "a kernel wrote outside of a buffer of {} bytes", overwritten);
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
  Loaded& loaded = slots_[slot];
  loaded.workload = workload;
  loaded.copies = count_copies(workload, kRotated, rotate_bytes, kMaxCopyBytes);
  try {
    place_buffers(loaded);
    load_code(loaded);
    build(loaded, 1);
  } catch (...) {
    slots_.erase(slot);
    throw;
  }
}

void CudaExecutor::place_buffers(Loaded& loaded) {
  for (int64_t copy = 0; copy < loaded.copies; ++copy) {
    for (size_t b = 0; b < loaded.workload.buffers.size(); ++b) {
      const BufferSpec& spec = loaded.workload.buffers[b];
      const Block& block = is_written(spec) ? output_block(b, storage_size(spec))
                                            : input_block(spec, spec.warmth == kRotated ? copy : 0);
      loaded.data.push_back(block.data);
    }
  }
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

// The manifest's only entry: `repetitions` runs, one after the other on each of several copies of rotated buffers. The
// buffers are weights at their addresses, since those begin at 0.
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
      kernel += step.cuda.call.empty() ? 1 : 0;
    }
  }
  loaded.manifest.entries = {std::move(entry)};
}

// The runtime's context for so many runs.
void CudaExecutor::build(Loaded& loaded, int64_t repetitions) const {
  if (loaded.repetitions == repetitions) return;
  loaded.repetitions = 0;
  loaded.context.reset();
  add_entry(loaded, repetitions);
  loaded.context = std::make_unique<cuda::CudaContext>(*loaded.model, runtime::Options());
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

void CudaExecutor::reset() {
  slots_.clear();
  inputs_.clear();
  outputs_.clear();
  forget_outputs();
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

}  // namespace tw::tune
