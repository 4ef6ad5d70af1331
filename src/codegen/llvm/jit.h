// Compiles a program in memory to callable kernels: for measuring and for tests.
#pragma once
#include <memory>
#include <string_view>

#include "codegen/llvm/object.h"

namespace tw::codegen::cpu {

using KernelFunction = void (*)(void* const* buffers, void* scratch, int64_t tile_begin, int64_t tile_end);

/// The kernels stay callable as long as the module lives. The code is that of compile_object.
class JitModule {
 public:
  explicit JitModule(const loop::Program& program, const CpuLevel& level = host_level(),
                     const EmitOptions& options = {});

  /// Entry point of the kernel called `name`; throws InternalError when there is none.
  KernelFunction function(std::string_view name) const;
  const KernelEntry& kernel(std::string_view name) const { return code_.kernel(name); }

 private:
  MachineCode code_;
  std::shared_ptr<std::byte> mapped_;  // the same bytes, executable
};

}  // namespace tw::codegen::cpu
