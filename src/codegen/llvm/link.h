// Our linker step: one ELF object -> one position-independent blob. Private to codegen/llvm.
#pragma once
#include <llvm/ADT/ArrayRef.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace tw::codegen::cpu {

struct LinkedBlob {
  struct Symbol {
    int64_t offset = 0;  // bytes
    int64_t size = 0;    // bytes
  };
  std::vector<std::byte> bytes;
  std::map<std::string, Symbol> functions;  // global functions
};

/// Lays out code first, then read-only data, each section at a multiple of 64 bytes, and applies the relocations, all
/// of which must be relative to the place (R_X86_64_PC32, R_X86_64_PLT32, R_X86_64_PC64). Throws InternalError on
/// undefined symbols (named), on writable data and on other relocations.
LinkedBlob link(::llvm::ArrayRef<char> object);

}  // namespace tw::codegen::cpu
