// Versions of what makes machine code of lowered loops.
#pragma once
#include <string>

namespace tw::codegen::cpu {

/// Counts up when equal loops may give other machine code than before, by the same LLVM: a change of the emitter, of
/// the IR passes, of the code generator's options. Used as lower/version.h.
inline constexpr int kEmitterVersion = 1;

/// "LLVM 19.1.7".
std::string llvm_version();

}  // namespace tw::codegen::cpu
