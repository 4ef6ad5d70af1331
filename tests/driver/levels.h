// The CPU levels that tests run code for.
#pragma once
#include <string>
#include <vector>

#include "codegen/llvm/target.h"

namespace tw::driver::test {

/// Best first.
inline const std::vector<std::string>& levels() {
  static const std::vector<std::string> kLevels = {"x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64"};
  return kLevels;
}

inline bool runs_here(const std::string& level) { return codegen::cpu::runs_on_host(*codegen::cpu::find_level(level)); }

}  // namespace tw::driver::test
