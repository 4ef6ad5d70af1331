// What all entries of an artefact share: the table of kernels with their code, and the weights.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/target_info.h"
#include "driver/artefact/compiled.h"

namespace tw::driver {

/// One cache line, one vector: code and weights begin at multiples of it, in bytes.
inline constexpr int64_t kAlignment = 64;

/// Lays the code of all programs out: on a CPU in one section, each cubin in a section of its own.
class CodeStore {
 public:
  CodeStore(DeviceKind device, const std::vector<ProgramCode>& programs, Assembled& out);
  /// Row of the kernel table for kernel `kernel` of program `program`.
  int64_t row(int program, size_t kernel) const { return first_row_[program] + static_cast<int64_t>(kernel); }
  const ProgramCode::Entry& entry(int program, size_t kernel) const { return programs_[program].kernels[kernel]; }

 private:
  void place(size_t program, Assembled& out);
  DeviceKind device_;
  const std::vector<ProgramCode>& programs_;
  std::vector<int64_t> first_row_;  // of each program
};

/// Constants as they are stored, equal ones once.
class WeightStore {
 public:
  /// Offset of `bytes` in the section "weights".
  int64_t add(std::span<const std::byte> bytes);
  std::vector<uint8_t> take() { return std::move(bytes_); }

 private:
  std::vector<uint8_t> bytes_;
  std::map<std::string, int64_t> offset_;  // content hash -> offset
};

}  // namespace tw::driver
