// Micro-benchmarks of a GPU as CUDA C++: what all of it reads, writes, copies and computes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/target_info.h"

namespace tw::driver::machine {

/// Buffers are multiples of it, in bytes: what all threads of the largest grid touch in one turn.
inline constexpr int64_t kMoveUnit = int64_t{1} << 20;

enum class Move : uint8_t { kRead, kWrite, kCopy };

/// Goes through `bytes` bytes `passes` times. Parameters: read: from, out; write: out; copy: from, to (bytes / 2 each).
struct MoveKernel {
  std::string name;
  Move move = Move::kRead;
  int64_t bytes = 0;
  int64_t passes = 1;
};

/// Multiplies and adds on registers, or on shared memory where the device's matrix instructions read it. Parameters:
/// seeds (kSeedBytes bytes of any content), out.
struct ComputeKernel {
  std::string name;
  TypePeak peak;        // which type, by which instructions
  int64_t threads = 0;  // of a block
  int64_t blocks = 0;   // of the launch: all that fit at once
  int64_t shared_bytes = 0;
  double operations = 0;  // of one launch
};
inline constexpr int64_t kSeedBytes = 4096;

/// The device's kernels of arithmetic: vector f32, f16, bf16, f64; matrix f16, bf16, tf32, i8, f64.
std::vector<ComputeKernel> compute_kernels(const TargetInfo& target);

/// The text of all of them, and of "tw_nothing", which does nothing.
std::string device_source(const TargetInfo& target, const std::vector<MoveKernel>& moves,
                          const std::vector<ComputeKernel>& computes);

/// Blocks and threads that move kernels are launched with.
int64_t move_blocks(const TargetInfo& target);
inline constexpr int64_t kMoveThreads = 512;

}  // namespace tw::driver::machine
