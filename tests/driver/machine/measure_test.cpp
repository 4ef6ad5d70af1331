// The micro-benchmarks: that the kernels do what they are timed for, and that this machine's parameters make sense.
#include "driver/machine/measure.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "driver/machine/bounds.h"
#include "driver/machine/sampling.h"
#include "tests/driver/machine/sample.h"
#ifdef TW_HAVE_LLVM
#include <cmath>
#include <numeric>

#include "codegen/llvm/jit.h"
#include "driver/machine/kernels.h"
#include "driver/machine/latency.h"
#endif

namespace tw::driver::machine {
namespace {

TEST(Sampling, BestDecile) {
  std::vector<double> samples(20);
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<double>(i + 1);
  EXPECT_EQ(best_decile(samples, Better::kHigher), 18);
  EXPECT_EQ(best_decile(samples, Better::kLower), 3);
  EXPECT_EQ(best_decile({5}, Better::kLower), 5);
  EXPECT_EQ(best_decile({}, Better::kLower), 0);
}

TEST(Sampling, ZeroIsNoSample) {
  EXPECT_EQ(best_decile({0, 7, 0}, Better::kLower), 7);
  EXPECT_EQ(best_decile({0, 0}, Better::kHigher), 0);
}

TEST(Sampling, TogetherAddsTheRates) {
  const auto work = [] {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    return 100'000.0;
  };
  const std::vector<Work> works(2, work);
  double rate = 0;
  for (int attempt = 0; attempt < 100 && rate == 0; ++attempt) rate = rate_together(works, 2'000'000);
  EXPECT_GT(rate, 0.02) << "two works of at most 1 a ns each";
  EXPECT_LT(rate, 2.01);
  EXPECT_EQ(rate_together({}, 1), 0);
}

// Whoever holds the CPUs meanwhile: a list of regions costs less than its tiles again, or there is no sample.
// The first sample below `limit`, or 0 after ten seconds: other work on the machine may disturb any of them.
double region_ns_below(double limit, runtime::ThreadPool& pool) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < end) {
    const double ns = region_ns(pool, 1);
    if (ns > 0 && ns < limit) return ns;
  }
  return 0;
}

TEST(Regions, CostLittle) {
  runtime::ThreadPool pool(2);
  EXPECT_GT(region_ns_below(1'000'000, pool), 0);
  runtime::ThreadPool alone(1);
  EXPECT_GT(region_ns_below(1000, alone), 0);
}

TEST(Sampling, RoundsTakeTurns) {
  std::string order;
  Rounds rounds;
  const size_t a = rounds.add([&] { return order += 'a', static_cast<double>(order.size()); });
  const size_t b = rounds.add([&] { return order += 'b', static_cast<double>(order.size()); }, Better::kLower);
  rounds.run(0, 3, 10);
  EXPECT_EQ(order, "ababab");
  EXPECT_EQ(rounds.best(a), 5);
  EXPECT_EQ(rounds.best(b), 2);
}

#ifdef TW_HAVE_LLVM
using codegen::cpu::JitModule;

JitModule generate(loop::Kernel kernel) {
  const loop::Program program{"test", {std::move(kernel)}};
  loop::verify(program);
  return JitModule(program, codegen::cpu::host_level(), {.param_alignment = 4});
}

TEST(Kernels, ReadAddsTheChunksItIsGiven) {
  constexpr int kLanes = 8;
  constexpr int64_t kLines = 2 * kReadLines;
  std::vector<int32_t> data(kLines * 16);
  std::iota(data.begin(), data.end(), 1);
  for (const int64_t lines : {1, 2, 4, 8, 16, 64}) {
    const JitModule module = generate(read_kernel("read", lines, kLanes));
    std::vector<int32_t> places;  // the second half of the data first, chunks backwards
    for (int64_t line = kLines - lines; line >= 0; line -= lines) places.push_back(static_cast<int32_t>(line));
    std::vector<int32_t> out(2 * kLanes);
    void* buffers[] = {data.data(), places.data(), out.data()};
    module.function("read")(buffers, nullptr, 0, 2);
    for (size_t tile = 0; tile < 2; ++tile) {
      const size_t half = data.size() / 2, from = tile == 0 ? half : 0;
      for (size_t lane = 0; lane < kLanes; ++lane) {
        uint32_t want = 0;
        for (size_t i = lane; i < half; i += kLanes) want += static_cast<uint32_t>(data[from + i]);
        ASSERT_EQ(static_cast<uint32_t>(out[tile * kLanes + lane]), want) << lines << " lines";
      }
    }
  }
}

TEST(Kernels, WriteAndCopyMoveWholeTiles) {
  constexpr int kLanes = 8;
  constexpr size_t kElements = 3 * kMoveLines * 16;
  std::vector<int32_t> value(kLanes), data(kElements), copy(kElements);
  std::iota(value.begin(), value.end(), 7);
  const JitModule write = generate(write_kernel("write", kLanes));
  void* written[] = {value.data(), data.data()};
  write.function("write")(written, nullptr, 1, 3);
  for (size_t i = 0; i < kElements; ++i) ASSERT_EQ(data[i], i < kElements / 3 ? 0 : value[i % kLanes]);
  const JitModule mover = generate(copy_kernel("copy", kLanes));
  void* copied[] = {data.data(), copy.data()};
  mover.function("copy")(copied, nullptr, 0, 3);
  EXPECT_EQ(copy, data);
}

TEST(Kernels, ChaseFollowsAndClockCounts) {
  constexpr int64_t kWords = 24 * 8;
  std::vector<int64_t> next(kWords);
  write_chase(next.data(), 24);
  int64_t want = 0;
  for (int64_t i = 0; i < kChaseSteps; ++i) want = next[static_cast<size_t>(want)];
  int64_t state = 0;
  void* chased[] = {next.data(), &state};
  generate(chase_kernel("chase")).function("chase")(chased, nullptr, 0, 1);
  EXPECT_EQ(state, want);
  uint64_t words[] = {0x123456789, 0xabcdef, 1}, a = 1;
  for (int64_t i = 0; i < kClockSteps; ++i) a = (a + words[0]) ^ words[1];
  void* clocked[] = {words, words + 2};
  generate(clock_kernel("clock")).function("clock")(clocked, nullptr, 0, 1);
  EXPECT_EQ(words[2], a);
}

TEST(Kernels, FmaAccumulates) {
  std::vector<float> in(16, 0.5F), out(12 * 8);
  in[0] = 1;  // x of lane 0: acc grows by 0.5 a step
  const JitModule module = generate(fma_kernel("fma", 12, 8, MultiplyAdd::kFused));
  void* buffers[] = {in.data(), out.data()};
  module.function("fma")(buffers, nullptr, 0, 1);
  for (size_t i = 0; i < out.size(); ++i)
    EXPECT_EQ(out[i], i % 8 == 0 ? 1 + 0.5F * static_cast<float>(kFmaSteps) : 1.0F);
}

// Not how fast this machine is, which another one's load decides: that every parameter is there and in order.
TEST(Measure, ThisMachine) {
  const TargetInfo defaults = targets::find_target("cpu").info;
  const targets::HostCpu cpu = targets::host_cpu();
  const int64_t begin = now_ns();
  const TargetInfo raw = measure_machine(defaults, cpu);
  const double seconds = static_cast<double>(now_ns() - begin) / 1e9;
  RecordProperty("seconds", std::to_string(seconds));
  EXPECT_EQ(raw.parameters_from, "measured on " + cpu.name);
  EXPECT_EQ(raw.compute_units, cpu.compute_units);
  ASSERT_GE(raw.levels.size(), 2u);
  EXPECT_EQ(raw.levels.back().name, "DRAM");
  for (const MemoryLevel& level : raw.levels) {
    EXPECT_GT(level.latency_ns, 0) << level.name;
    EXPECT_GT(level.read_per_ns, 0) << level.name;
    EXPECT_GT(level.write_per_ns, 0) << level.name;
    EXPECT_GT(level.copy_per_ns, 0) << level.name;
    ASSERT_EQ(level.chunks.size(), 6u);
    for (const ChunkBandwidth& chunk : level.chunks) EXPECT_GT(chunk.bytes_per_ns, 0) << level.name;
  }
  // Factors that no load takes away: a DRAM access against an L1 hit.
  EXPECT_GT(raw.levels.back().latency_ns, 5 * raw.levels.front().latency_ns);
  EXPECT_GT(raw.levels.front().read_per_ns, 2 * raw.levels.back().read_per_ns);
  for (const VectorPeak& peak : raw.peaks) EXPECT_GT(peak.flop_per_ns, 0);
  // A load that comes and goes decides between two rates of one measurement: the best of three has to show it.
  double wider = raw.flop_per_ns, narrow = raw.peaks.front().flop_per_ns;
  for (int again = 0; again < 2 && wider <= 1.2 * narrow; ++again) {
    const TargetInfo other = measure_machine(defaults, cpu);
    wider = std::max(wider, other.flop_per_ns);
  }
  EXPECT_GT(wider, 1.2 * narrow) << "wider vectors do more";
  // 0: no region was left alone. Else several threads take longer than an access to L1, and no longer than a sleep.
  if (cpu.compute_units > 1 && raw.fork_join_ns != 0) {
    EXPECT_GT(raw.fork_join_ns, raw.levels.front().latency_ns);
    EXPECT_LT(raw.fork_join_ns, 1e6);
  }
  const TargetInfo info = plausible(raw, defaults);
  EXPECT_GT(info.fork_join_ns, 0);
  for (size_t l = 1; l < info.levels.size(); ++l) {
    EXPECT_LE(info.levels[l].read_per_ns, info.levels[l - 1].read_per_ns);
    EXPECT_GE(info.levels[l].latency_ns, info.levels[l - 1].latency_ns);
  }
}

TEST(Measure, PeakOfThreads) {
  const TargetInfo cpu = targets::find_target("cpu").info;
  EXPECT_GT(measure_fma_peak(cpu, 1), 1);
  EXPECT_GT(measure_fma_peak(cpu, 3), 1) << "more threads than CPUs, maybe";
}
#else
TEST(Measure, NeedsLlvm) {
  EXPECT_THROW(measure_machine(targets::find_target("cpu").info, targets::host_cpu()), Unsupported);
}
#endif

}  // namespace
}  // namespace tw::driver::machine
