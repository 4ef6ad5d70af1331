// A GEMM micro-kernel written directly as loop IR: right numbers, no spills, and its share of the FMA peak.
#include <chrono>
#include <cmath>
#include <cstdio>

#include "support/math.h"
#include "tests/codegen/llvm/harness.h"

namespace tw::codegen::cpu::testing {
namespace {

using loop::ForKind;
using loop::make_allocate;
using loop::make_for;
using loop::make_let;
using loop::make_store;
using loop::Scope;
using loop::Stmt;

// Vector spills of all kernels.
int64_t spill_count(const MachineCode& code) {
  int64_t spills = 0;
  for (const KernelEntry& kernel : code.kernels) spills += kernel.vector_spills;
  return spills;
}

constexpr DataType kF32 = DataType::f32();

struct Tile {
  int64_t rows, vectors;
  int lanes;
  int64_t columns() const { return vectors * lanes; }
};

Expr element(const std::string& buffer, const Tile& tile, int64_t row, int64_t vector) {
  return load(buffer, kF32, {row, ramp(int_imm(vector * tile.lanes), 1, tile.lanes)});
}

Stmt set(const Tile& tile, int64_t row, int64_t vector, Expr value) {
  return make_store("acc", {row, ramp(int_imm(vector * tile.lanes), 1, tile.lanes)}, std::move(value));
}

// C[m, n] = sum over k of A[m, k] * Bp[n / NR, k, n % NR], one tile of the tile loop for each MR x NR block of C; both
// divide their extents. The k loop is unrolled by 4.
loop::Program gemm(const Tile& tile, int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kUnroll = 4;
  const int64_t panels = n / tile.columns();
  const Expr row0 = var("im") * tile.rows;
  std::vector<Stmt> init, step, finish;
  for (int64_t r = 0; r < tile.rows; ++r) {
    for (int64_t v = 0; v < tile.vectors; ++v)
      init.push_back(set(tile, r, v, float_imm(0, kF32.with_lanes(tile.lanes))));
  }
  for (int64_t u = 0; u < kUnroll; ++u) {
    const Expr kk = var("ko") * kUnroll + u;
    std::vector<Expr> b;
    for (int64_t v = 0; v < tile.vectors; ++v) {
      b.push_back(load("B", kF32, {var("in"), kk, ramp(int_imm(v * tile.lanes), 1, tile.lanes)}));
    }
    for (int64_t r = 0; r < tile.rows; ++r) {
      const Expr a = broadcast(load("A", kF32, {row0 + r, kk}), tile.lanes);
      for (int64_t v = 0; v < tile.vectors; ++v)
        step.push_back(set(tile, r, v, fma(a, b[static_cast<size_t>(v)], element("acc", tile, r, v))));
    }
  }
  for (int64_t r = 0; r < tile.rows; ++r) {
    for (int64_t v = 0; v < tile.vectors; ++v) {
      const Expr column = ramp(var("in") * tile.columns() + v * tile.lanes, 1, tile.lanes);
      finish.push_back(make_store("C", {row0 + r, column}, element("acc", tile, r, v)));
    }
  }
  std::vector<Stmt> body = std::move(init);
  body.push_back(make_for("ko", k / kUnroll, ForKind::kSerial, std::move(step)));
  body.insert(body.end(), finish.begin(), finish.end());
  loop::Kernel kernel = make_kernel(
      "gemm", {param("A", kF32, {m, k}), param("B", kF32, {panels, k, tile.columns()}), param("C", kF32, {m, n})},
      {"C"}, {make_allocate(local("acc", kF32, {tile.rows, tile.columns()}, Scope::kRegister), std::move(body))});
  kernel.body = {make_let("in", floor_mod(var("tile"), panels),
                          {make_let("im", floor_div(var("tile"), panels), std::move(kernel.body))})};
  kernel.tile_var = "tile";
  kernel.tiles = (m / tile.rows) * panels;
  return {"gemm", {std::move(kernel)}};
}

constexpr int64_t kPeakSteps = 2000;
constexpr int64_t kPeakChains = 12;  // more than latency times units: 4 * 2 on x86 cores since 2015

// x = a * x + b on independent registers: nothing but FMAs.
loop::Program fma_only(int lanes) {
  const auto at = [&](int64_t chain) { return std::vector<Expr>{ramp(int_imm(chain * lanes), 1, lanes)}; };
  std::vector<Stmt> init, step, finish;
  for (int64_t chain = 0; chain < kPeakChains; ++chain) {
    const Expr x = load("x", kF32, at(chain));
    init.push_back(make_store("x", at(chain), load("X", kF32, at(chain))));
    step.push_back(make_store("x", at(chain),
                              fma(x, broadcast(load("s", kF32, {0}), lanes), broadcast(load("s", kF32, {1}), lanes))));
    finish.push_back(make_store("X", at(chain), x));
  }
  init.push_back(make_store("s", {0}, load("S", kF32, {0})));
  init.push_back(make_store("s", {1}, load("S", kF32, {1})));
  init.push_back(make_for("step", kPeakSteps, ForKind::kSerial, std::move(step)));
  init.insert(init.end(), finish.begin(), finish.end());
  const loop::Buffer registers = local("x", kF32, {kPeakChains * lanes}, Scope::kRegister);
  Stmt body = make_allocate(registers, {make_allocate(local("s", kF32, {2}, Scope::kRegister), std::move(init))});
  return {"peak",
          {make_kernel("peak", {param("X", kF32, {kPeakChains * lanes}), param("S", kF32, {2})}, {"X"},
                       {std::move(body)})}};
}

double seconds(const std::function<void()>& run) {
  double best = 1e9;
  for (int i = 0; i < 200; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

double peak_flops(const CpuLevel& level) {
  const int lanes = level.vector_bytes / 4;
  const JitModule jit(fma_only(lanes), level);
  alignas(64) float x[kPeakChains * 16] = {};
  alignas(64) float s[2] = {0.5f, 1.0f};
  void* table[] = {x, s};
  const double time = seconds([&] { jit.function("peak")(table, nullptr, 0, 1); });
  return 2.0 * lanes * kPeakChains * kPeakSteps / time;
}

class GemmTest : public ::testing::TestWithParam<std::tuple<Tile, std::string>> {};

TEST_P(GemmTest, IsRight) {
  const auto& [tile, level] = GetParam();
  const int64_t m = 2 * tile.rows, n = 2 * tile.columns(), k = 20;
  loop::Memory memory;
  memory["A"] = small_ints(kF32, {m, k}, 1, -4, 4);
  memory["B"] = small_ints(kF32, {2, k, tile.columns()}, 2, -4, 4);
  memory["C"] = small_ints(kF32, {m, n}, 3);
  const std::string levels[] = {level};
  check_program(gemm(tile, m, n, k), memory, levels);
}

TEST_P(GemmTest, DoesNotSpillAndIsFast) {
  const auto& [tile, name] = GetParam();
  const CpuLevel level = *find_level(name);
  const bool fits = runs_on_host(level) && level.vector_bytes >= 4 * tile.lanes;
  if (!fits) GTEST_SKIP() << "this CPU has no vectors of " << tile.lanes << " floats or does not run " << name;
  const int64_t m = 8 * tile.rows, n = 4 * tile.columns(), k = 256;
  const loop::Program program = gemm(tile, m, n, k);
  const MachineCode code = compile_object(program, level);
  EXPECT_EQ(spill_count(code), 0);
  const MappedCode mapped(code);
  std::vector<float> a(static_cast<size_t>(m * (k + 16)), 1), b(static_cast<size_t>(n * k + 16), 1),
      c(static_cast<size_t>(m * n + 16));
  const auto aligned = [](std::vector<float>& v) {
    return reinterpret_cast<void*>(round_up(reinterpret_cast<int64_t>(v.data()), 64));
  };
  void* table[] = {aligned(a), aligned(b), aligned(c)};
  const auto run = mapped.function(code.kernel("gemm"));
  const double time = seconds([&] { run(table, nullptr, 0, program.kernels[0].tiles); });
  const double share = 2.0 * static_cast<double>(m * n * k) / time / peak_flops(level);
  std::printf("%s %ldx%ld, k %ld: %.1f %% of the FMA peak of %.1f GF/s, %ld bytes of code\n", name.c_str(),
              static_cast<long>(tile.rows), static_cast<long>(tile.columns()), static_cast<long>(k), 100 * share,
              peak_flops(level) / 1e9, static_cast<long>(code.kernel("gemm").size));
  EXPECT_GT(share, 0.5) << "far below what such a kernel reaches even on a busy machine";
}

INSTANTIATE_TEST_SUITE_P(Tiles, GemmTest,
                         ::testing::Values(std::tuple{Tile{14, 2, 16}, "host"}, std::tuple{Tile{6, 4, 16}, "host"},
                                           std::tuple{Tile{8, 3, 16}, "x86-64-v4"},
                                           std::tuple{Tile{4, 3, 8}, "x86-64-v3"}));

TEST(Spills, AreCounted) {
  if (host_level().vector_bytes < 64) GTEST_SKIP() << "this CPU has no 512-bit vectors";
  EXPECT_GT(spill_count(compile_object(gemm({14, 3, 16}, 28, 96, 8), host_level())), 0);
}

}  // namespace
}  // namespace tw::codegen::cpu::testing
