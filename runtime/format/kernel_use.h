// What kernels do, as their compiler knows it: section "kernels", against which the manifest is checked before any of
// them runs. Machine code says none of this by itself.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/format/hash.h"
#include "runtime/format/manifest.h"

namespace tw::format {

/// The last version whose artefacts for GPUs have no such section.
inline constexpr uint32_t kFormatOfCpuTables = 14;

struct KernelArgument {
  DataType dtype = DataType::kF32;  ///< of its elements
  int64_t bytes = 0;                ///< from its address on, that the kernel may touch at most
  bool is_written = false;
  friend bool operator==(const KernelArgument&, const KernelArgument&) = default;
};

/// A way to call a kernel; steps call it in one of those that the table has.
struct KernelUse {
  int64_t offset = 0, bytes = 0;  ///< of the kernel, in section "code"; CUDA: N and the size of its section "cubin.N"
  int64_t tiles = 1;              ///< CUDA: 1
  int64_t scratch_bytes = 0;      ///< that it may touch at most; CUDA: that are 0 when it starts, Zeros::bytes
  int64_t launch = 0;             ///< CUDA: launch_key()
  std::vector<KernelArgument> arguments = {};  ///< CUDA: in the order of buffers_of(CudaStep)
  friend bool operator==(const KernelUse&, const KernelUse&) = default;
};

/// N of "cubin.N".
int64_t cubin_number(const std::string& section);

/// Of the name of a CUDA kernel and all that its launch says but which buffers it takes and for which steps it waits:
/// the first bits of a hash, not negative.
int64_t launch_key(const std::string& kernel, const CudaStep& step);

/// The section's bytes: all numbers as i64, little-endian: how many uses, and for each of them offset, bytes, tiles,
/// scratch bytes, launch, how many arguments, and for each of these dtype, bytes, and 1 where it is written, else 0.
std::vector<uint8_t> to_bytes(const std::vector<KernelUse>& uses);
/// Inverse of to_bytes; Error(kDamaged) for anything else. `version`: of the format; up to kFormatOfCpuTables there is
/// no launch.
std::vector<KernelUse> read_kernel_uses(Bytes section, uint32_t version = kFormatVersion);

/// That every step calls its kernel as the table has it, or a library for a problem, on buffers that hold what the
/// kernel touches, writes what may be written, reads and writes tensors of its types, has its scratch memory, and waits
/// for what it needs; that it reads what a step before it has written, and that something of every output is written.
/// Error(kDamaged). Pre: the manifest was validated.
void check_kernel_uses(const Manifest& manifest, const std::vector<KernelUse>& uses);
/// The same of the section's bytes, for artefacts whose version has it.
void check_kernel_table(const Manifest& manifest, Bytes section);

}  // namespace tw::format
