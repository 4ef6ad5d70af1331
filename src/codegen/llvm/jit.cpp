#include "codegen/llvm/jit.h"

#include <llvm/Support/Memory.h>

#include <system_error>

#include "support/error.h"

namespace tw::codegen::cpu {

using ::llvm::sys::Memory;

JitModule::JitModule(const loop::Program& program, const CpuLevel& level, const EmitOptions& options)
    : code_(compile_object(program, level, options)) {
  std::error_code error;
  const auto block = std::make_shared<::llvm::sys::OwningMemoryBlock>(
      Memory::allocateMappedMemory(code_.code.size(), nullptr, Memory::MF_READ | Memory::MF_WRITE, error));
  if (error) throw ResourceError("no memory for {} bytes of code: {}", code_.code.size(), error.message());
  mapped_ = std::shared_ptr<std::byte>(block, static_cast<std::byte*>(block->base()));
  std::ranges::copy(code_.code, mapped_.get());
  error = Memory::protectMappedMemory(block->getMemoryBlock(), Memory::MF_READ | Memory::MF_EXEC);
  if (error) throw ResourceError("memory cannot be made executable: {}", error.message());
}

KernelFunction JitModule::function(std::string_view name) const {
  return reinterpret_cast<KernelFunction>(mapped_.get() + kernel(name).offset);
}

}  // namespace tw::codegen::cpu
