// CPU levels as data: what LLVM is told to generate for, and what a machine must have to run the result.
// Namespace of this folder: tw::codegen::cpu (not `llvm`, which would hide LLVM's own namespace).
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tw::codegen::cpu {

struct CpuLevel {
  std::string name;                   // "x86-64-v3", "host"
  std::string cpu;                    // LLVM's -mcpu
  std::string features;               // LLVM's -mattr beyond those of `cpu`: "+avx2,+fma"
  int vector_bytes = 16;              // widest vector register worth using
  std::vector<std::string> required;  // features of the CPU that the code may use, in LLVM's spelling, sorted
  std::string triple = "x86_64-unknown-linux-gnu";  // LLVM's name of the architecture and its system

  /// Whether code of this level may use `feature` ("avx512f", "fma", "f16c").
  bool has(std::string_view feature) const;
};

/// The published levels x86-64, x86-64-v2, x86-64-v3, x86-64-v4 (x86-64 psABI, table 3.1), lowest first; aarch64, which
/// is Armv8.0-A.
std::span<const CpuLevel> cpu_levels();
/// The level called `name`, "host" included, or a level with extensions, "x86-64-v4+avx512bf16+avx512vnni"; nothing
/// when there is none or it has no such extension.
std::optional<CpuLevel> find_level(std::string_view name);
/// This machine, with every feature that LLVM detects on it.
const CpuLevel& host_level();
/// Whether this machine has all required features of `level`.
bool runs_on_host(const CpuLevel& level);

}  // namespace tw::codegen::cpu
