// Compiles a program in memory (LLVM ORC) to callable kernels: for measuring and for tests.
#pragma once
#include <memory>
#include <string_view>

#include "codegen/llvm/object.h"

namespace tw::codegen::cpu {

using KernelFunction = void (*)(void* const* buffers, void* scratch, int64_t tile_begin, int64_t tile_end);

/// The kernels stay callable as long as the module lives. Same code generation as compile_object.
class JitModule {
 public:
  explicit JitModule(const loop::Program& program, const CpuLevel& level = host_level(),
                     const EmitOptions& options = {});
  JitModule(JitModule&&) noexcept;
  JitModule& operator=(JitModule&&) noexcept;
  ~JitModule();

  /// Entry point of the kernel called `name`; throws InternalError when there is none.
  KernelFunction function(std::string_view name) const;
  /// Sizes and spills of that kernel (its offset is 0: ORC decides where the code lies).
  const KernelEntry& kernel(std::string_view name) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw::codegen::cpu
