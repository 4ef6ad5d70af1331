// LLVM IR -> ELF object or assembly text in memory, with what the register allocator did. Private to codegen/llvm.
#pragma once
#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/SmallVector.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

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

// ---- Our linker step: one ELF object -> one position-independent blob (link.cpp).

struct LinkedBlob {
  struct Symbol {
    int64_t offset = 0;  // bytes
    int64_t size = 0;    // bytes
  };
  std::vector<std::byte> bytes;
  std::map<std::string, Symbol> functions;  // global functions
};

/// Lays out code first, then read-only data, each section at a multiple of 64 bytes, and applies the relocations, all
/// of which must be relative to the place (R_X86_64_PC32, R_AARCH64_ADR_PREL_LO21, ..). Throws InternalError on
/// undefined symbols (named), on writable data and on other relocations.
LinkedBlob link(::llvm::ArrayRef<char> object);

}  // namespace tw::codegen::cpu
