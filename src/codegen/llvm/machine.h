// LLVM IR -> ELF object or assembly text in memory, with what the register allocator did. Private to codegen/llvm.
#pragma once
#include <llvm/ADT/SmallVector.h>

#include <map>
#include <string>

#include "codegen/llvm/module_impl.h"

namespace tw::codegen::cpu {

struct FrameInfo {
  int64_t stack_bytes = 0;
  int64_t vector_spills = 0;  // instructions that store to or load from a spill slot of 16 bytes or more
};

struct MachineOutput {
  ::llvm::SmallVector<char, 0> bytes;       // the ELF object, or the text
  std::map<std::string, FrameInfo> frames;  // by function
};

enum class MachineFormat : uint8_t { kObject, kAssembly };

/// Runs the code generator; it changes the module, which is of no use afterwards.
MachineOutput generate(Module& module, MachineFormat format);

}  // namespace tw::codegen::cpu
