#include "codegen/llvm/version.h"

#include <llvm/Config/llvm-config.h>

namespace tw::codegen::cpu {

std::string llvm_version() { return "LLVM " LLVM_VERSION_STRING; }

}  // namespace tw::codegen::cpu
