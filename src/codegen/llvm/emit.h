// Loop IR -> LLVM IR. One function per kernel, with the fixed ABI
//   void NAME(void* const* buffers, void* scratch, int64_t tile_begin, int64_t tile_end)
// buffers[i] is the base of parameter i; `scratch` is 64-byte aligned and holds KernelInfo::scratch_bytes bytes; the
// tile loop runs over [tile_begin, tile_end). Input: lowered loop IR (no vectorised or unrolled loops, constant indices
// into register buffers, no elementary calls but sqrt). The meaning of every operation is that of expr/expr.h.
#pragma once
#include "codegen/llvm/module.h"
#include "codegen/llvm/target.h"
#include "loop/loop.h"

namespace tw::codegen::cpu {

/// Throws InternalError on IR that is not lowered or not well formed.
Module emit(const loop::Program& program, const CpuLevel& level, const EmitOptions& options = {});

/// Runs the cheap IR passes in place: SROA, EarlyCSE, InstCombine, SimplifyCFG, LICM. No vectoriser, no unroller: both
/// are decisions of the schedule.
void optimize(Module& module);

}  // namespace tw::codegen::cpu
