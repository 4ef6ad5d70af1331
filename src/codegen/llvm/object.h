// LLVM IR -> one blob of position-independent machine code, laid out by our own linker step: what artefacts hold.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/llvm/emit.h"

namespace tw::codegen::cpu {

struct KernelEntry {
  std::string name;
  int64_t offset = 0;         // of the entry point in the blob, bytes, a multiple of 64
  int64_t size = 0;           // of the function, bytes
  int64_t scratch_bytes = 0;  // scratch area one thread needs, bytes
  int64_t stack_bytes = 0;    // stack frame, bytes
  int64_t vector_spills = 0;  // vector registers stored to or reloaded from spill slots (static count of instructions)
};

/// Code and read-only data, both aligned to 64 bytes: map the blob readable and executable, at a 64-byte aligned
/// address, anywhere. The same input gives the same bytes.
struct MachineCode {
  std::vector<std::byte> code;
  std::vector<KernelEntry> kernels;  // in the program's order

  /// The kernel called `name`; throws InternalError when there is none.
  const KernelEntry& kernel(std::string_view name) const;
};

/// Compiles all kernels of `program`. Throws InternalError when the code would need a symbol from outside, writable
/// data or a relocation that is not relative to the code itself.
MachineCode compile_object(const loop::Program& program, const CpuLevel& level, const EmitOptions& options = {});

/// Assembly text (AT&T syntax, LLVM's remarks on spills included) of the same code, for people and tests.
std::string compile_assembly(const loop::Program& program, const CpuLevel& level, const EmitOptions& options = {});

}  // namespace tw::codegen::cpu
