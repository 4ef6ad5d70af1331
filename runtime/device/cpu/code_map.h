// Kernel code made executable: a private copy of the verified section, never writable and executable at once.
#pragma once
#include <algorithm>

#include "runtime/device/cpu/kernel.h"
#include "runtime/format/hash.h"
#include "runtime/memory.h"

namespace tw::runtime {

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
