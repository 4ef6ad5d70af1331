#include "driver/peak.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "loop/loop.h"
#include "support/error.h"
#ifdef TW_HAVE_LLVM
#include "codegen/llvm/jit.h"
#endif

namespace tw::driver {

#ifdef TW_HAVE_LLVM
namespace {

using loop::Stmt;

constexpr int kSteps = 20000;
constexpr int kSamples = 15;

// acc[c] = fma(acc[c], x, y) for every chain c, kSteps times; x and y are vectors in registers.
loop::Program peak_program(int chains, int lanes) {
  const DataType f32 = DataType::f32();
  const auto lane_index = [&](int c) { return ramp(int_imm(c * lanes), int_imm(1), lanes); };
  std::vector<Stmt> init, step, finish;
  for (int c = 0; c < chains; ++c) {
    const Expr acc = load("acc", f32, {lane_index(c)});
    init.push_back(loop::make_store("acc", {lane_index(c)}, load("in", f32, {ramp(int_imm(0), int_imm(1), lanes)})));
    step.push_back(loop::make_store("acc", {lane_index(c)},
                                    fma(acc, var("x", f32.with_lanes(lanes)), var("y", f32.with_lanes(lanes)))));
    finish.push_back(loop::make_store("out", {lane_index(c)}, acc));
  }
  std::vector<Stmt> body = init;
  body.push_back(loop::make_for("k", kSteps, loop::ForKind::kSerial, step));
  body.insert(body.end(), finish.begin(), finish.end());
  const Expr x = load("in", f32, {ramp(int_imm(0), int_imm(1), lanes)});
  const Expr y = load("in", f32, {ramp(int_imm(lanes), int_imm(1), lanes)});
  loop::Kernel kernel;
  kernel.name = "peak";
  kernel.params = {{"in", f32, {2 * lanes}}, {"out", f32, {chains * lanes}}};
  kernel.written = {"out"};
  const loop::Buffer acc{"acc", f32, {chains * lanes}, loop::Scope::kRegister};
  kernel.body = {loop::make_let("x", x, {loop::make_let("y", y, {loop::make_allocate(acc, body)})})};
  return {"peak", {kernel}};
}

double sample_seconds(codegen::cpu::KernelFunction run, int chains, int lanes) {
  std::vector<float> in(2 * lanes, 0.5f);
  std::vector<float> out(chains * lanes);
  void* buffers[] = {in.data(), out.data()};
  double best = 1e30;
  for (int s = 0; s < kSamples; ++s) {
    const auto start = std::chrono::steady_clock::now();
    run(buffers, nullptr, 0, 1);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

}  // namespace

double measure_fma_peak(const TargetInfo& target, int threads) {
  const int lanes = target.lanes(DataType::f32());
  const int chains = target.vector_registers - 4;  // x, y and two spare
  codegen::cpu::EmitOptions options;
  options.param_alignment = sizeof(float);
  const codegen::cpu::JitModule module(peak_program(chains, lanes), codegen::cpu::host_level(), options);
  const codegen::cpu::KernelFunction run = module.function("peak");
  std::vector<double> seconds(static_cast<size_t>(threads));
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) workers.emplace_back([&, t] { seconds[t] = sample_seconds(run, chains, lanes); });
  for (std::thread& w : workers) w.join();
  double total = 0;
  for (const double s : seconds) total += 2.0 * lanes * chains * kSteps / s / 1e9;
  return total;
}
#else
double measure_fma_peak(const TargetInfo& target, int) {
  throw Unsupported("measuring " + target.name + " needs LLVM");
}
#endif

}  // namespace tw::driver
