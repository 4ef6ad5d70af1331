#include "driver/machine/measure.h"

#include "support/error.h"
#ifdef TW_HAVE_LLVM
#include <cmath>

#include "driver/machine/bench.h"
#include "driver/machine/kernels.h"
#include "runtime/format/error.h"
#include "runtime/memory.h"
#include "support/join.h"
#endif

namespace tw::driver::machine {
#ifdef TW_HAVE_LLVM
namespace {

constexpr int64_t kMiB = 1024 * 1024;
constexpr int64_t kSampleNs = 200'000;
constexpr int64_t kBudgetNs = 1'000'000'000;  // of the rounds; code generation and the curve take as long again
constexpr int kMinRounds = 5;
constexpr int kMaxRounds = 50;
constexpr int64_t kWindowBytes = 1 * kMiB;  // of DRAM, per call: what a sample reads is not read again soon
constexpr int kCurvePasses = 3;
constexpr int64_t kMinDramBytes = 128 * kMiB;
constexpr int64_t kMaxDramBytes = 2048 * kMiB;
constexpr int64_t kCurveBytes = 64 * kMiB;  // footprints up to this, or twice the last cache that the system knows of
constexpr int64_t kMinChaseBytes = 64 * kMiB;  // of DRAM's latency, or twice the last cache
constexpr int kBarriers = 8;                   // of the regions that tell what a barrier costs

// Bytes that hold DRAM's measurements: large against the caches, so that random places are not in them.
int64_t dram_bytes(const targets::HostCpu& cpu) {
  int64_t wanted = kMinDramBytes;
  for (const targets::HostCache& cache : cpu.caches) {
    const int64_t instances = (cpu.compute_units + cache.sharers - 1) / cache.sharers;
    wanted = std::max({wanted, 4 * cache.bytes, 2 * cache.bytes * instances});
  }
  const int64_t allowed = std::max<int64_t>(cpu.memory_bytes / 16, 4 * kMiB);
  return round_footprint(static_cast<double>(std::min({wanted, kMaxDramBytes, allowed})));
}

runtime::Memory map_memory(int64_t bytes) {
  try {
    runtime::Memory memory = runtime::Memory::map(static_cast<size_t>(bytes), "measuring the machine");
    memory.populate();
    return memory;
  } catch (const format::Error& error) {
    throw ResourceError(error.what());
  }
}

class Machine {
 public:
  Machine(const TargetInfo& defaults, const targets::HostCpu& cpu)
      : info_(defaults),
        cpu_(cpu),
        bench_(defaults),
        pool_(cpu.compute_units),
        bytes_(dram_bytes(cpu)),
        memory_(map_memory(2 * bytes_)),
        data_(reinterpret_cast<std::byte*>(memory_.data())) {}

  TargetInfo measure() {
    set_capacities(latency_curve());
    set_footprints();
    add_peaks();
    for (size_t l = 0; l < info_.levels.size(); ++l) add_level(l);
    add_latencies();
    add_regions();
    rounds_.run(kBudgetNs, kMinRounds, kMaxRounds);
    for (const std::function<void()>& take : results_) take();
    // The difference between regions of many steps and of one; none without samples of both.
    const bool both = info_.barrier_ns > 0 && info_.fork_join_ns > 0;
    info_.barrier_ns = both ? std::max(1.0, (info_.barrier_ns - info_.fork_join_ns) / kBarriers) : 0;
    info_.flop_per_ns = info_.peaks.back().flop_per_ns;
    info_.parameters_from = "measured on " + cpu_.name;
    return info_;
  }

 private:
  // The least of a few passes at every footprint.
  std::vector<LatencyPoint> latency_curve() const {
    const int64_t limit = cpu_.caches.empty() ? kCurveBytes : 2 * cpu_.caches.back().bytes;
    const std::vector<int64_t> footprints = curve_footprints(std::min(limit, bytes_));
    std::vector<LatencyPoint> curve = bench_.latency_curve(data_, footprints);
    for (int pass = 1; pass < kCurvePasses; ++pass) {
      const std::vector<LatencyPoint> again = bench_.latency_curve(data_, footprints);
      for (size_t i = 0; i < curve.size(); ++i) curve[i].ns = std::min(curve[i].ns, again[i].ns);
    }
    return curve;
  }

  // Levels of info_ are those of the system; where it says nothing, as many as the curve shows.
  void set_capacities(const std::vector<LatencyPoint>& curve) {
    std::vector<int64_t> claimed = mapped(cpu_.caches, &targets::HostCache::bytes);
    const std::vector<int64_t> found = reconcile_capacities(claimed, detect_capacities(curve));
    if (found.empty()) return;
    const std::vector<MemoryLevel> known = info_.levels;
    info_.levels.clear();
    instance_bytes_ = found;
    for (size_t l = 0; l < found.size(); ++l) {
      MemoryLevel level = known[std::min(l, known.size() - 2)];
      level.name = claimed.empty() ? "L" + std::to_string(l + 1) : level.name;
      const int64_t instance = claimed.empty() ? level.capacity_bytes : claimed[l];
      level.capacity_bytes = claimed.empty() ? found[l] : level.capacity_bytes / instance * found[l];
      info_.levels.push_back(std::move(level));
    }
    info_.levels.push_back(known.back());
  }

  // What a level is measured with: well inside it, well outside the nearer one. DRAM: all of the memory.
  void set_footprints() {
    double nearer = 0;
    for (size_t l = 0; l + 1 < info_.levels.size(); ++l) {
      const auto capacity =
          static_cast<double>(l < instance_bytes_.size() ? instance_bytes_[l] : info_.levels[l].capacity_bytes);
      footprints_.push_back(round_footprint(l == 0 ? capacity / 2 : std::sqrt(nearer * capacity)));
      nearer = capacity;
    }
    footprints_.push_back(bytes_);
  }

  // Footprint of one thread while all threads use level `l`: they share what is shared.
  int64_t footprint_of_each(size_t l) const {
    if (!info_.levels[l].shared) return footprints_[l];
    if (l + 1 == footprints_.size())
      return std::max(bytes_ / cpu_.compute_units / kWindowBytes, int64_t{1}) * kWindowBytes;
    const int64_t share = info_.levels[l].capacity_bytes / cpu_.compute_units / 2;
    return round_footprint(static_cast<double>(std::min(footprints_[l], share)));
  }

  void add(double& parameter, std::function<double()> sample, Better better = Better::kHigher) {
    const size_t quantity = rounds_.add(std::move(sample), better);
    results_.push_back([this, &parameter, quantity] { parameter = rounds_.best(quantity); });
  }
  void add_alone(double& parameter, Work work) {
    add(parameter, [work = std::move(work)] { return rate_alone(work, kSampleNs); });
  }
  void add_together(double& parameter, std::vector<Work> works) {
    add(parameter, [works = std::move(works)] { return rate_together(works, kSampleNs); });
  }

  void add_peaks() {
    info_.peaks.clear();
    for (int width = 16; width <= info_.vector_bytes; width *= 2) info_.peaks.push_back({width});
    for (VectorPeak& peak : info_.peaks) {
      const Work fma = bench_.fma(peak.vector_bytes);
      add_alone(peak.flop_per_ns, fma);
      // The clock right after the load: it stays where the load has brought it for a millisecond and more.
      add(peak.clock_ghz, [fma, clock = bench_.clock()] {
        rate_alone(fma, kSampleNs);
        return rate_alone(clock, kSampleNs / 8);
      });
      std::vector<Work> works = by_index(cpu_.compute_units, [&](int unit) { return bench_.fma(peak.vector_bytes); });
      add_together(peak.all_flop_per_ns, std::move(works));
    }
  }

  void add_level(size_t l) {
    MemoryLevel& level = info_.levels[l];
    const int64_t footprint = footprints_[l];
    const int64_t window = l + 1 == info_.levels.size() ? kWindowBytes : 0;
    add_alone(level.read_per_ns, bench_.read(data_, footprint, window));
    add_alone(level.write_per_ns, bench_.write(data_, footprint, window));
    add_alone(level.copy_per_ns, bench_.copy(data_, footprint, window));
    const int64_t each = footprint_of_each(l);
    std::vector<Work> works;
    const int64_t places = std::max<int64_t>(1, bytes_ / each);
    for (int unit = 0; unit < cpu_.compute_units; ++unit)
      works.push_back(bench_.read(data_ + unit % places * each, each, window));
    add_together(level.all_per_ns, std::move(works));
    level.chunks.clear();
    for (const int64_t lines : chunk_lengths()) level.chunks.push_back({lines * kLineBytes, 0});
    for (ChunkBandwidth& chunk : level.chunks)
      add_alone(chunk.bytes_per_ns, bench_.read_chunks(data_, footprint, chunk.chunk_bytes / kLineBytes, window));
  }

  // Chases have the second half of the memory to themselves, one after the other. That of DRAM is long enough to meet
  // no line twice; the others are brought near again before each sample.
  void add_latencies() {
    std::byte* at = data_ + bytes_;
    for (size_t l = 0; l < info_.levels.size(); ++l) {
      const bool dram = l + 1 == info_.levels.size();
      const int64_t left = data_ + 2 * bytes_ - at;
      const int64_t wanted = dram ? std::max(kMinChaseBytes, 2 * last_cache_bytes()) : footprints_[l];
      const int64_t bytes = round_footprint(static_cast<double>(std::min(wanted, left)));
      const Work loads = bench_.chase(at, bytes);
      const Work near = dram ? loads : bench_.read(at, bytes);
      const auto sample = [loads, near] { return near(), 1 / rate_alone(loads, kSampleNs); };
      add(info_.levels[l].latency_ns, sample, Better::kLower);
      at += bytes;
    }
  }

  int64_t last_cache_bytes() const { return cpu_.caches.empty() ? 0 : cpu_.caches.back().bytes; }

  void add_regions() {
    add(
        info_.fork_join_ns, [this] { return region_ns(pool_, 1); }, Better::kLower);
    add(
        info_.barrier_ns, [this] { return region_ns(pool_, 1 + kBarriers); }, Better::kLower);
  }

  TargetInfo info_;
  const targets::HostCpu& cpu_;
  Bench bench_;
  runtime::ThreadPool pool_;
  int64_t bytes_;           // of DRAM's footprint
  runtime::Memory memory_;  // that, and as much for the chases
  std::byte* data_;
  std::vector<int64_t> instance_bytes_;  // capacity of one instance of each cache
  std::vector<int64_t> footprints_;      // by level, DRAM included
  Rounds rounds_;
  std::vector<std::function<void()>> results_;
};

}  // namespace

TargetInfo measure_machine(const TargetInfo& defaults, const targets::HostCpu& cpu) {
  return Machine(defaults, cpu).measure();
}
#else
TargetInfo measure_machine(const TargetInfo& defaults, const targets::HostCpu&) {
  throw Unsupported("measuring " + defaults.name + " needs LLVM");
}
#endif

}  // namespace tw::driver::machine
