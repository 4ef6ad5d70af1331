// The functions behind the rows of pipeline.cpp.
#pragma once
#include "lower/pass.h"

namespace tw::lower {

/// `program` with the bodies that `body_of` gives for its kernels.
template <typename BodyOf>
loop::Program with_bodies(loop::Program program, const BodyOf& body_of) {
  for (loop::Kernel& kernel : program.kernels) kernel.body = body_of(kernel);
  return program;
}

/// Simplifies every expression with the ranges of the loops around it; drops loops of extent 0, loops of extent 1
/// become their body, ifs with a known condition their branch.
loop::Program simplify(const loop::Program& program, const LowerOptions& options);

/// Splits loops (and tile coordinates) where a guard inside holds for the first part of the range, so that the main
/// part has no guard and the tail a constant extent:
///   for i in 10 { for j in 14 { if (i*14 + j < 130) S } }
///   -> for i in 9 { for j in 14 S }  { for j in 4 S }         (the second with i = 9)
loop::Program split_guards(const loop::Program& program, const LowerOptions& options);

/// In turns of pipelined loops, threads select between what they make of registers, or load from memory, and something
/// else only where a condition fails for one of them:
///   for t in 64 threads { y[t] = i*64 + t < n ? x[t] : 0 }
///   -> if (i*64 + 63 < n) { for t in 64 threads { y[t] = x[t] } } else { .. }
loop::Program part_masks(const loop::Program& program, const LowerOptions& options);

/// Loops whose sums take a term where their variable is a computed index do that turn alone:
///   for i in 8 { y[i] = y[i] + select(at == i, x, 0) }
///   -> let i = at { if (0 <= i && i < 8) { y[i] = y[i] + x } }
loop::Program single_turns(const loop::Program& program, const LowerOptions& options);

/// Turns kVectorized loops into vector statements: the variable becomes ramp(0, 1, extent); guards become predicates;
/// a reduction into an element that does not move with the variable becomes a reduction over lanes.
loop::Program vectorize(const loop::Program& program, const LowerOptions& options);

/// Replaces kUnrolled loops by copies of their body, one for every iteration, the variable a constant. Names inside the
/// copy of iteration i end in "ui", after the endings that loops further inside give.
loop::Program unroll(const loop::Program& program, const LowerOptions& options);

/// Fused multiply-adds of the schedule's sums become products and sums where the target has no fused ones. (Those that
/// expand_functions makes later rely on their one rounding: expand_missing keeps that.)
loop::Program split_products(const loop::Program& program, const LowerOptions& options);

/// Whether a kernel rounds all quotients and elementary functions to 16 bits, and decides nothing by them.
bool rounds_to_16_bits(const loop::Kernel& kernel);

/// Elementary functions become arithmetic, approximate if that does, or in the stores that do by themselves
/// (expr/expand.h); shared values become lets.
loop::Program expand_functions(const loop::Program& program, const LowerOptions& options);

/// Conversions from and to f16 and bf16 become integer arithmetic (expr/expand.h), but for those that the target has.
loop::Program expand_conversions(const loop::Program& program, const LowerOptions& options);

/// Operations that the target has no instruction for become others (expr/expand.h).
loop::Program expand_missing(const loop::Program& program, const LowerOptions& options);

}  // namespace tw::lower
