// The micro-benchmarks as works on memory: what one call of a kernel moves, and where.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codegen/llvm/jit.h"
#include "core/target_info.h"
#include "driver/machine/latency.h"
#include "driver/machine/sampling.h"

namespace tw::driver::machine {

enum class Kernels : uint8_t { kAll, kFmaOnly };

/// The kernels, generated for this machine.
class Bench {
 public:
  /// For vectors of `target`, "fma" for every width up to it.
  explicit Bench(const TargetInfo& target, Kernels kernels = Kernels::kAll);

  /// Flop of independent FMA chains on registers of `vector_bytes`.
  Work fma(int vector_bytes) const;
  /// Cycles of dependent integer instructions.
  Work clock() const;

  /// Bytes read from `bytes` bytes at `data` (a multiple of 16 KiB), front to back, over and over; about
  /// `window_bytes` (0: all) a call, each call going on where the last one ended.
  Work read(std::byte* data, int64_t bytes, int64_t window_bytes = 0) const;
  /// The same in chunks of `chunk_lines` lines at random places, each chunk once before any comes again.
  Work read_chunks(std::byte* data, int64_t bytes, int64_t chunk_lines, int64_t window_bytes = 0) const;
  /// Bytes written.
  Work write(std::byte* data, int64_t bytes, int64_t window_bytes = 0) const;
  /// Bytes read from the first half and written to the second half, both counted; `window_bytes` of each.
  Work copy(std::byte* data, int64_t bytes, int64_t window_bytes = 0) const;

  /// Dependent loads through every line of `bytes` bytes (2^k or 3 * 2^k) at `data`, in an order without a pattern;
  /// each call goes on where the last one ended. Writes the chase there now; nobody else may write to it.
  Work chase(std::byte* data, int64_t bytes) const;
  /// Latency by footprint at `data`, the best of a few samples each; overwrites the data.
  std::vector<LatencyPoint> latency_curve(std::byte* data, const std::vector<int64_t>& footprints) const;

 private:
  codegen::cpu::KernelFunction function(const std::string& name) const;

  TargetInfo target_;
  std::shared_ptr<const codegen::cpu::JitModule> module_;
};

/// Chunk lengths in lines at which bandwidth is measured.
std::vector<int64_t> chunk_lengths();

}  // namespace tw::driver::machine
