// The micro-benchmarks as loop IR: they go through the same code generation as every compiled model.
#pragma once
#include <cstdint>
#include <string>

#include "loop/loop.h"

namespace tw::driver::machine {

constexpr int64_t kLineBytes = 64;     // the unit of chunk lengths
constexpr int64_t kReadLines = 256;    // lines that one tile of a "read" kernel reads
constexpr int64_t kMoveLines = 64;     // lines that one tile of "write" or "copy" writes
constexpr int64_t kFmaSteps = 2000;    // steps of one call of an "fma" kernel
constexpr int64_t kClockSteps = 8192;  // steps of one call of "clock"; a step is two dependent instructions
constexpr int64_t kChaseSteps = 1024;  // loads of one call of "chase"

/// Whether a machine multiplies and adds in one instruction, or in two (below x86-64-v3).
enum class MultiplyAdd : uint8_t { kFused, kTwo };

/// acc[c] = acc[c] * x + y for c in [0, chains), kFmaSteps times, in vectors of `lanes` f32. Parameters: in
/// f32[2 * lanes] (x, y), out f32[chains * lanes]. 2 * lanes * chains * kFmaSteps flop a call.
loop::Kernel fma_kernel(const std::string& name, int chains, int lanes, MultiplyAdd kind);

/// Tile t reads kReadLines / chunk_lines chunks, chunk c from line places[t * kReadLines / chunk_lines + c] on, as i32
/// vectors of `lanes` that are added. Parameters: data i32, places i32, out i32 (one vector a tile).
loop::Kernel read_kernel(const std::string& name, int64_t chunk_lines, int lanes);
/// Tile t writes kMoveLines lines. Parameters: value i32[lanes], data i32.
loop::Kernel write_kernel(const std::string& name, int lanes);
/// Tile t copies kMoveLines lines. Parameters: from i32, to i32.
loop::Kernel copy_kernel(const std::string& name, int lanes);

/// at = next[at], kChaseSteps times: dependent loads. Parameters: next i64 (indices of i64), state i64[1].
loop::Kernel chase_kernel(const std::string& name);
/// a = (a + x) xor y, kClockSteps times: two dependent instructions of one cycle each, so that the time tells the
/// clock. Parameters: in i64[2] (x, y), state i64[1].
loop::Kernel clock_kernel(const std::string& name);

}  // namespace tw::driver::machine
