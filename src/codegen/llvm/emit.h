// Loop IR -> LLVM IR. One function per kernel, with the fixed ABI
//   void NAME(void* const* buffers, void* scratch, int64_t tile_begin, int64_t tile_end)
// buffers[i] is the base of parameter i; `scratch` is 64-byte aligned and holds KernelInfo::scratch_bytes bytes; the
// tile loop runs over [tile_begin, tile_end). Input: lowered loop IR (no vectorised or unrolled loops, constant indices
// into register buffers, no elementary calls but sqrt). The meaning of every operation is that of expr/expr.h.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codegen/llvm/target.h"
#include "loop/loop.h"

namespace tw::codegen::cpu {

/// Whether two parameters of one kernel may share memory (an output computed in place of an input).
enum class ParamAliasing : uint8_t { kDistinct, kMayOverlap };

struct EmitOptions {
  ParamAliasing aliasing = ParamAliasing::kDistinct;
  int64_t param_alignment = 64;  // bytes, a power of two: alignment of every parameter's base
};

struct KernelInfo {
  std::string name;
  int64_t scratch_bytes = 0;  // size of the scratch area that one thread needs; a multiple of 64
};

/// An LLVM module that holds the kernels of one program. Owns its LLVM context: different modules may be worked on by
/// different threads.
class Module {
 public:
  struct Impl;  // module_impl.h
  explicit Module(std::unique_ptr<Impl> impl);
  Module(Module&&) noexcept;
  Module& operator=(Module&&) noexcept;
  ~Module();

  /// LLVM assembly text.
  std::string text() const;
  /// One row per kernel, in the program's order.
  const std::vector<KernelInfo>& kernels() const;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// Throws InternalError on IR that is not lowered or not well formed.
Module emit(const loop::Program& program, const CpuLevel& level, const EmitOptions& options = {});

/// Runs the cheap IR passes in place: SROA, EarlyCSE, InstCombine, SimplifyCFG, LICM. No vectoriser, no unroller: both
/// are decisions of the schedule.
void optimize(Module& module);

}  // namespace tw::codegen::cpu
