// Measures this machine: every parameter of TargetInfo that schedules are built from, what parallel regions of the
// runtime cost beyond the work in them (regions.cpp), and the FMA rate (peak.cpp).
#pragma once
#include "core/target_info.h"
#include "runtime/thread_pool.h"
#include "targets/x86_64/host.h"

namespace tw::driver::machine {

/// `defaults` (targets::find_target("cpu")) with measured machine parameters, as they were read: unbounded and
/// unrounded (bounds.h). Levels are those of the system where the latency curve agrees. Uses `cpu.units` threads, up to
/// an eighth of the memory and about 2 s. Throws ResourceError when there is no memory, Unsupported in a build without
/// LLVM.
TargetInfo measure_machine(const TargetInfo& defaults, const targets::HostCpu& cpu);

/// Nanoseconds that a list of `loops` loops on all threads of `pool` takes longer than its tiles, one tile of a
/// microsecond for each thread in each loop: the best decile of many lists in which every thread did its own tiles.
/// 0 when there was no such list: other programs use the CPUs.
double region_ns(runtime::ThreadPool& pool, int loops);

/// f32 FMA peak in GFLOP/s (one FMA counts 2) of `threads` threads running at once on `target`'s vectors: independent
/// chains of register operands, no memory; more threads than CPUs do no more than those. Takes about 50 ms; the best
/// decile of its samples. On a machine so busy that the threads never run at once: that of one thread times their
/// number. Unsupported without LLVM.
double measure_fma_peak(const TargetInfo& target, int threads);

}  // namespace tw::driver::machine
