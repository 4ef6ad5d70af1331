#include <algorithm>

#include "driver/machine/bounds.h"
#include "driver/machine/device.h"
#include "driver/machine/device_kernels.h"

namespace tw::driver::machine {
namespace {

constexpr int64_t kSamples = 15;
constexpr double kSampleNs = 4e6;   // of one sample: runs in a row
constexpr int64_t kMaxRuns = 1024;  // that the executor takes
constexpr int64_t kDramBytes = int64_t{1} << 30;
constexpr int64_t kCachePasses = 32;
constexpr int64_t kCacheShare = 3;  // a third of L2: what two halves of it keep twice still fits

struct Place {
  const char* level;
  int64_t bytes;
  int64_t passes;
};

std::vector<Place> places(const TargetInfo& target) {
  const int64_t cache = target.levels.at(target.levels.size() - 2).capacity_bytes / kCacheShare;
  return {{"L2", cache / kMoveUnit * kMoveUnit, kCachePasses}, {"DRAM", kDramBytes, 1}};
}

std::vector<MoveKernel> move_kernels(const TargetInfo& target) {
  std::vector<MoveKernel> kernels;
  for (const Place& place : places(target)) {
    for (const auto& [move, name] : {std::pair{Move::kRead, "read"}, {Move::kWrite, "write"}, {Move::kCopy, "copy"}})
      kernels.push_back({std::string("tw_") + name + "_" + place.level, move, place.bytes, place.passes});
  }
  return kernels;
}

measure::BufferSpec bytes_of(int64_t bytes, measure::Fill fill) {
  return {{DataType(ScalarType::kU8), {bytes}}, {}, fill};
}

class DeviceBench {
 public:
  DeviceBench(const std::vector<std::byte>& cubin, measure::Executor& executor) : cubin_(cubin), executor_(executor) {}

  double move_ns(const MoveKernel& kernel, int64_t blocks) {
    measure::Workload work;
    const int64_t each = kernel.move == Move::kCopy ? kernel.bytes / 2 : kernel.bytes;
    if (kernel.move == Move::kRead) work.buffers.push_back(bytes_of(kMoveUnit * 16, measure::Fill::kNothing));
    if (kernel.move == Move::kCopy) work.buffers.push_back(bytes_of(each, measure::Fill::kNothing));
    work.buffers.insert(work.buffers.begin(), bytes_of(each, measure::Fill::kNothing));
    return run_ns(std::move(work), kernel.name, blocks, {kMoveThreads, 0});
  }
  double compute_ns(const ComputeKernel& kernel) {
    measure::Workload work;
    work.buffers = {bytes_of(kSeedBytes, measure::Fill::kSigned), bytes_of(kSeedBytes, measure::Fill::kNothing)};
    return run_ns(std::move(work), kernel.name, kernel.blocks, {kernel.threads, kernel.shared_bytes});
  }
  double nothing_ns() {
    measure::Workload work;
    work.buffers = {bytes_of(kSeedBytes, measure::Fill::kNothing)};
    return run_ns(std::move(work), "tw_nothing", 1, {32, 0});
  }

 private:
  // The median of samples of some ms: those of a clock that is still rising, or of a neighbour, are outliers.
  double run_ns(measure::Workload work, const std::string& kernel, int64_t blocks, format::CudaLaunch launch) {
    work.code = cubin_;
    measure::WorkStep step;
    step.tiles = blocks;
    step.kernel = kernel;
    step.cuda = std::move(launch);
    for (size_t b = 0; b < work.buffers.size(); ++b) step.args.push_back(static_cast<int64_t>(b));
    work.steps = {std::move(step)};
    executor_.load(0, work, 0, 1);
    const double warm_ns = std::max(1.0, executor_.run(0, measure::Request::Outputs::kKeep).warm_ns);
    const int64_t runs = std::clamp(static_cast<int64_t>(kSampleNs / warm_ns), int64_t{1}, kMaxRuns);
    std::vector<double> times;
    for (const measure::Sample& sample : executor_.sample(0, runs, kSamples)) times.push_back(sample.nanoseconds);
    executor_.reset();
    std::ranges::sort(times);
    return times.empty() ? 0 : times[times.size() / 2];
  }

  const std::vector<std::byte>& cubin_;
  measure::Executor& executor_;
};

}  // namespace

std::string device_text(const TargetInfo& target) {
  return device_source(target, move_kernels(target), compute_kernels(target));
}

DeviceRates measure_device(const TargetInfo& target, const std::vector<std::byte>& cubin, measure::Executor& executor) {
  DeviceBench bench(cubin, executor);
  DeviceRates rates;
  for (const Place& place : places(target)) rates.levels.push_back({place.level});
  for (const MoveKernel& kernel : move_kernels(target)) {
    const double ns = bench.move_ns(kernel, move_blocks(target));
    const double rate = ns > 0 ? static_cast<double>(kernel.bytes * kernel.passes) / ns : 0;
    LevelRates& level = rates.levels[kernel.name.ends_with("DRAM") ? 1 : 0];
    (kernel.move == Move::kRead    ? level.read_per_ns
     : kernel.move == Move::kWrite ? level.write_per_ns
                                   : level.copy_per_ns) = rate;
  }
  for (const ComputeKernel& kernel : compute_kernels(target)) {
    const double ns = bench.compute_ns(kernel);
    rates.peaks.push_back({kernel.peak.type, kernel.peak.matrix, ns > 0 ? kernel.operations / ns : 0});
  }
  rates.launch_ns = bench.nothing_ns();
  return plausible(rates);
}

}  // namespace tw::driver::machine
