// Kernel code made executable: a private copy of the verified section, never writable and executable at once.
#pragma once
#include <algorithm>
#include <cstdint>

#include "runtime/format/hash.h"
#include "runtime/memory.h"

namespace tw::runtime {

// The interface between compiled kernels and the runtime. The compiler emits it; a change needs a new format version.
extern "C" {
/// Computes tiles [tile_begin, tile_end) of a step, in the C calling convention of the target.
///  - buffers[i] is the address of the step's i-th argument. Arena, weights and scratch start at a multiple of 4096
///    bytes, so a buffer's alignment there follows from its offset and its moves (Move::bytes): the compiler sees to it
///    that it has what the kernel needs. Inputs and outputs are aligned to their element only.
///  - scratch: memory of this thread alone, `scratch_bytes_per_thread` bytes with any content; null when that is 0.
///  - The floating-point environment is the default one: round to nearest, no traps; subnormal results are kept or
///    flushed to zero as the manifest says, subnormal operands are kept.
///  - An argument in place `error` is an int32 that is 0 before the run. A kernel may store a nonzero value to say that
///    it met a wrong input value (KernelError in runtime/device.h); it then goes on with some valid value.
using KernelFn = void (*)(void* const* buffers, void* scratch, int64_t tile_begin, int64_t tile_end);
}

class CodeMap {
 public:
  explicit CodeMap(format::Bytes code) : memory_(Memory::map(code.size(), "code")) {
    if (code.empty()) return;
    std::copy(code.begin(), code.end(), memory_.data());
    memory_.make_executable();
  }
  /// The kernel that starts at `offset` of the section; the manifest's validation checked the offset.
  KernelFn kernel(int64_t offset) const { return reinterpret_cast<KernelFn>(memory_.data() + offset); }

 private:
  Memory memory_;
};

}  // namespace tw::runtime
