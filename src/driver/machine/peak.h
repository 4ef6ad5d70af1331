// The machine's FMA rate, measured with a kernel of our own code generation.
#pragma once
#include "core/target_info.h"

namespace tw::driver::machine {

/// f32 FMA peak in GFLOP/s (one FMA counts 2) of `threads` threads running at once on `target`'s vectors: independent
/// chains of register operands, no memory; more threads than CPUs do no more than those. Takes about 50 ms; the best
/// decile of its samples. On a machine so busy that the threads never run at once: that of one thread times their
/// number. Unsupported without LLVM.
double measure_fma_peak(const TargetInfo& target, int threads);

}  // namespace tw::driver::machine
