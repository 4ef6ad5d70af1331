// What a Module is made of. Private to codegen/llvm.
#pragma once
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include "codegen/llvm/module.h"
#include "codegen/llvm/target.h"

namespace tw::codegen::cpu {

struct Module::Impl {
  CpuLevel level;
  std::string diagnostics;  // errors that LLVM reported, one a line
  ::llvm::LLVMContext context;
  std::unique_ptr<::llvm::LLVMTargetMachine> target;
  std::unique_ptr<::llvm::Module> module;
  std::vector<KernelInfo> kernels;
};

/// Code generator for x86-64 ELF at `level`: position-independent, small code model, -O2, no fusion of its own.
std::unique_ptr<::llvm::LLVMTargetMachine> make_target_machine(const CpuLevel& level);

/// Throws InternalError with what LLVM reported since the module was made, if anything.
void throw_diagnostics(const Module::Impl& impl);

}  // namespace tw::codegen::cpu
