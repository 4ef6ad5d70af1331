#ifdef TW_HAVE_LLVM
#include "driver/machine/bench.h"

#include <array>
#include <random>

#include "driver/machine/kernels.h"

namespace tw::driver::machine {
namespace {

using codegen::cpu::JitModule;
using codegen::cpu::KernelFunction;

constexpr int kSpareRegisters = 4;            // of an FMA kernel: x, y and two more
constexpr double kCyclesOfClockStep = 2;      // kernels.h: "clock"
constexpr int64_t kBatchBytes = 512 * 1024;   // moved between two looks at the clock
constexpr int64_t kMaxPlaces = 512 * 1024;    // chunks of one table: more than a measurement reads
constexpr int64_t kWarmChaseBytes = 4 << 20;  // footprints up to this are walked once before they are measured
constexpr int kLatencySamples = 4;
constexpr int64_t kLatencySampleNs = 100'000;
constexpr int64_t kLapPlaces = 1024;  // of a table for a small footprint: it holds several laps, so that calls are long
constexpr int64_t kMaxLaps = 16;

std::string fma_name(int vector_bytes) { return "fma" + std::to_string(vector_bytes); }
std::string read_name(int64_t chunk_lines) { return "read" + std::to_string(chunk_lines); }

loop::Program program_of(const TargetInfo& target, Kernels kernels) {
  const int lanes = target.lanes(DataType::i32());
  const MultiplyAdd kind = has_feature(target, "fma") ? MultiplyAdd::kFused : MultiplyAdd::kTwo;
  loop::Program program{"machine", {}};
  for (int bytes = 16; bytes <= target.vector_bytes; bytes *= 2)
    program.kernels.push_back(fma_kernel(fma_name(bytes), target.vector_registers - kSpareRegisters, bytes / 4, kind));
  if (kernels == Kernels::kFmaOnly) return program;
  for (const int64_t lines : chunk_lengths()) program.kernels.push_back(read_kernel(read_name(lines), lines, lanes));
  program.kernels.push_back(write_kernel("write", lanes));
  program.kernels.push_back(copy_kernel("copy", lanes));
  program.kernels.push_back(chase_kernel("chase"));
  program.kernels.push_back(clock_kernel("clock"));
  return program;
}

// Calls of a kernel over windows of tiles: each buffer moves on by its stride from window to window.
struct Stream {
  std::shared_ptr<const JitModule> module;
  KernelFunction run = nullptr;
  struct Operand {
    std::byte* base;
    int64_t stride;  // bytes from one window to the next
  };
  std::vector<Operand> operands = {};
  int64_t tiles = 0;  // of a window
  int64_t windows = 1;
  int64_t at = 0;
  double bytes_of_window = 0;
  std::vector<std::shared_ptr<void>> owned = {};  // tables and results that operands point to

  double operator()() {
    const int64_t calls = std::max<int64_t>(1, kBatchBytes / static_cast<int64_t>(bytes_of_window));
    std::array<void*, 3> buffers{};
    for (int64_t call = 0; call < calls; ++call) {
      for (size_t o = 0; o < operands.size(); ++o) buffers[o] = operands[o].base + at * operands[o].stride;
      run(buffers.data(), nullptr, 0, tiles);
      at = at + 1 == windows ? 0 : at + 1;
    }
    return static_cast<double>(calls) * bytes_of_window;
  }
};

std::shared_ptr<std::vector<int32_t>> contiguous_places(int64_t chunks, int64_t chunk_lines) {
  auto places = std::make_shared<std::vector<int32_t>>(static_cast<size_t>(chunks));
  for (int64_t c = 0; c < chunks; ++c) (*places)[static_cast<size_t>(c)] = static_cast<int32_t>(c * chunk_lines);
  return places;
}

// First lines of `count` of `chunks` chunks, in random order, each at most once.
std::shared_ptr<std::vector<int32_t>> random_places(int64_t chunks, int64_t count, int64_t chunk_lines) {
  const auto places = contiguous_places(chunks, chunk_lines);
  std::mt19937_64 random(static_cast<uint64_t>(chunks));
  for (int64_t i = 0; i < count; ++i) {
    const auto other = static_cast<size_t>(i) + random() % static_cast<uint64_t>(chunks - i);
    std::swap((*places)[static_cast<size_t>(i)], (*places)[other]);
  }
  places->resize(static_cast<size_t>(count));
  return places;
}

// Repeats the places of a footprint that fits one window, and the window's tiles with them.
void add_laps(Stream& stream, std::vector<int32_t>& places) {
  const auto lap = static_cast<int64_t>(places.size());
  const int64_t laps = stream.windows > 1 ? 1 : std::clamp<int64_t>(kLapPlaces / lap, 1, kMaxLaps);
  for (int64_t i = lap; i < laps * lap; ++i) places.push_back(places[static_cast<size_t>(i - lap)]);
  stream.tiles *= laps;
  stream.bytes_of_window *= static_cast<double>(laps);
}

template <typename T>
std::byte* bytes_of(const std::shared_ptr<std::vector<T>>& values) {
  return reinterpret_cast<std::byte*>(values->data());
}

// Cuts `bytes` bytes into windows of about `window_bytes` (0: one window), whole tiles of `tile_lines` lines each, and
// returns the bytes of a window.
int64_t set_windows(Stream& stream, int64_t bytes, int64_t window_bytes, int64_t tile_lines) {
  const int64_t tile_bytes = tile_lines * kLineBytes;
  const int64_t wanted = window_bytes > 0 ? std::min(bytes, window_bytes) : bytes;
  stream.tiles = std::max<int64_t>(1, wanted / tile_bytes);
  stream.windows = std::max<int64_t>(1, bytes / (stream.tiles * tile_bytes));
  stream.bytes_of_window = static_cast<double>(stream.tiles * tile_bytes);
  return stream.tiles * tile_bytes;
}

}  // namespace

std::vector<int64_t> chunk_lengths() { return {1, 2, 4, 8, 16, 64}; }

Bench::Bench(const TargetInfo& target, Kernels kernels)
    : target_(target),
      module_(std::make_shared<JitModule>(program_of(target, kernels), codegen::cpu::host_level(),
                                          codegen::cpu::EmitOptions{.param_alignment = 8})) {}

KernelFunction Bench::function(const std::string& name) const { return module_->function(name); }

Work Bench::fma(int vector_bytes) const {
  const int chains = target_.vector_registers - kSpareRegisters;
  const int lanes = vector_bytes / 4;
  const auto in = std::make_shared<std::vector<float>>(2 * lanes, 0.5F);  // converges to 1: no denormals
  const auto out = std::make_shared<std::vector<float>>(chains * lanes);
  const double flop = 2.0 * chains * lanes * static_cast<double>(kFmaSteps);
  return [run = function(fma_name(vector_bytes)), module = module_, in, out, flop] {
    void* buffers[] = {in->data(), out->data()};
    run(buffers, nullptr, 0, 1);
    return flop;
  };
}

Work Bench::clock() const {
  const auto words = std::make_shared<std::vector<int64_t>>(std::vector<int64_t>{0x9e3779b97f4a7c15 >> 1, 12345, 1});
  return [run = function("clock"), module = module_, words] {
    void* buffers[] = {words->data(), words->data() + 2};
    run(buffers, nullptr, 0, 1);
    return kCyclesOfClockStep * static_cast<double>(kClockSteps);
  };
}

Work Bench::read(std::byte* data, int64_t bytes, int64_t window_bytes) const {
  const int64_t longest = chunk_lengths().back();
  Stream stream{.module = module_, .run = function(read_name(longest))};
  const int64_t window = set_windows(stream, bytes, window_bytes, kReadLines);
  const auto places = contiguous_places(stream.tiles * kReadLines / longest, longest);
  add_laps(stream, *places);
  const auto out = std::make_shared<std::vector<std::byte>>(stream.tiles * target_.vector_bytes);
  stream.operands = {{data, window}, {bytes_of(places), 0}, {out->data(), 0}};
  stream.owned = {places, out};
  return stream;
}

Work Bench::read_chunks(std::byte* data, int64_t bytes, int64_t chunk_lines, int64_t window_bytes) const {
  Stream stream{.module = module_, .run = function(read_name(chunk_lines))};
  set_windows(stream, bytes, window_bytes, kReadLines);
  const int64_t chunks_of_window = stream.tiles * kReadLines / chunk_lines;
  const int64_t chunks = bytes / (chunk_lines * kLineBytes);
  stream.windows = std::max<int64_t>(1, std::min(chunks, kMaxPlaces) / chunks_of_window);
  const auto places = random_places(chunks, stream.windows * chunks_of_window, chunk_lines);
  add_laps(stream, *places);
  const auto out = std::make_shared<std::vector<std::byte>>(stream.tiles * target_.vector_bytes);
  stream.operands = {{data, 0}, {bytes_of(places), chunks_of_window * 4}, {out->data(), 0}};
  stream.owned = {places, out};
  return stream;
}

Work Bench::write(std::byte* data, int64_t bytes, int64_t window_bytes) const {
  Stream stream{.module = module_, .run = function("write")};
  const int64_t window = set_windows(stream, bytes, window_bytes, kMoveLines);
  const auto source = std::make_shared<std::vector<std::byte>>(target_.vector_bytes);
  stream.operands = {{source->data(), 0}, {data, window}};
  stream.owned = {source};
  return stream;
}

Work Bench::copy(std::byte* data, int64_t bytes, int64_t window_bytes) const {
  Stream stream{.module = module_, .run = function("copy")};
  const int64_t window = set_windows(stream, bytes / 2, window_bytes, kMoveLines);
  stream.bytes_of_window = 2.0 * static_cast<double>(window);
  stream.operands = {{data, window}, {data + bytes / 2, window}};
  return stream;
}

Work Bench::chase(std::byte* data, int64_t bytes) const {
  auto* next = reinterpret_cast<int64_t*>(data);
  write_chase(next, bytes / kLineBytes);
  return [run = function("chase"), module = module_, next, state = std::make_shared<int64_t>(0)] {
    void* buffers[] = {next, state.get()};
    run(buffers, nullptr, 0, 1);
    return static_cast<double>(kChaseSteps);
  };
}

std::vector<LatencyPoint> Bench::latency_curve(std::byte* data, const std::vector<int64_t>& footprints) const {
  std::vector<LatencyPoint> curve;
  for (const int64_t bytes : footprints) {
    const Work loads = chase(data, bytes);
    const int64_t warm_calls = bytes <= kWarmChaseBytes ? bytes / kLineBytes / kChaseSteps + 1 : 1;
    for (int64_t call = 0; call < warm_calls; ++call) loads();
    std::vector<double> samples;
    for (int s = 0; s < kLatencySamples; ++s) samples.push_back(1 / rate_alone(loads, kLatencySampleNs));
    curve.push_back({bytes, best_decile(samples, Better::kLower)});
  }
  return curve;
}

}  // namespace tw::driver::machine
#endif  // TW_HAVE_LLVM
