// What a target is, as properties: the hardware abstraction that schedules are built from. No code outside targets/ and
// driver/ asks for a target by name.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/data_type.h"

namespace tw {

enum class DeviceKind : uint8_t { kCpu, kCuda };

/// Bandwidth of reads in runs of `chunk_bytes` contiguous bytes at random places.
struct ChunkBandwidth {
  int64_t chunk_bytes = 64;
  double bytes_per_ns = 0;
};

struct MemoryLevel {
  std::string name;            // "L1", "L2", "DRAM"
  int64_t capacity_bytes = 0;  // per compute unit; when shared: of all together; DRAM: of this machine
  int64_t line_bytes = 64;
  int ways = 8;
  bool shared = false;      // by all compute units: they divide capacity and bandwidth
  double latency_ns = 0;    // of a dependent load
  double read_per_ns = 0;   // bytes, one compute unit alone, contiguous
  double write_per_ns = 0;  // bytes, one compute unit alone, contiguous, write-allocate included
  double copy_per_ns = 0;   // bytes read and bytes written together
  double all_per_ns = 0;    // bytes read by all compute units together
  std::vector<ChunkBandwidth> chunks = {};
};

/// Rate of f32 fused multiply-adds on registers of one width; an FMA is 2 flop.
struct VectorPeak {
  int vector_bytes = 16;
  double flop_per_ns = 0;      // one compute unit alone
  double all_flop_per_ns = 0;  // all compute units at once
  double clock_ghz = 0;        // of one compute unit right after that load
};

/// Bytes a ns that all compute units of a device move together from and to one memory level. 0: not known.
struct LevelRates {
  std::string name;  // of the MemoryLevel
  double read_per_ns = 0;
  double write_per_ns = 0;
  double copy_per_ns = 0;  // bytes read and bytes written together
};

/// Operations a ns of all compute units of a device together, on factors of one type; a multiply-add is 2.
struct TypePeak {
  std::string type;     // "f16", "tf32"
  bool matrix = false;  // by matrix instructions
  double op_per_ns = 0;
};

/// What a whole device does at best, for reports to compare with. Schedules do not read it.
struct DeviceRates {
  std::vector<LevelRates> levels;
  std::vector<TypePeak> peaks;
  double launch_ns = 0;  // from one empty kernel of a graph to the next
  std::string from;      // "data sheet of NAME" or "measured on NAME"
};

/// Threads of a GPU that issue together: a warp of every NVIDIA GPU.
inline constexpr int64_t kWarpThreads = 32;
/// Bytes of an SM's shared memory beside a block's rows: for what its threads combine, and for the hardware.
inline constexpr int64_t kReservedShared = 4096;

/// What one SM of a GPU does in each of its cycles at best, and what it holds. Schedules and their costs ask it; on
/// CPUs all is 0. targets/cuda/data_sheets.cpp has the values and their sources.
struct SmRates {
  double cycles_per_ns = 0;    // under load
  double thread_products = 0;  // f32 multiply-adds of its threads, a cycle
  double warp_products = 0;    // multiply-adds of 16-bit floats by matrix instructions of warps, a cycle; of tf32 half
  double group_products = 0;   // the same by those of warp groups; 0: there are none
  double shared_bytes = 0;     // from or to shared memory, a cycle
  double l2_bytes = 0;         // from L2, a cycle, by one SM alone
  double all_l2_bytes = 0;     // from L2, a cycle, by all SMs together
  double l2_share = 0;         // from L2, a cycle, by each of all SMs
  double dram_share = 0;       // from or to memory, a cycle, by each of all SMs
  double kernel_cycles = 0;    // of one more kernel, beyond its work
  int64_t registers = 0;       // of 32 bits
  int64_t reserved_bytes = 0;  // of shared memory, for a block's barriers and the hardware
};

struct TargetInfo {
  DeviceKind kind = DeviceKind::kCpu;
  std::string name;       // "cpu:x86-64-v4", "cuda:sm_90a"
  int vector_bytes = 16;  // widest vector
  int vector_registers = 16;
  int compute_units = 1;            // cores of a CPU, SMs of a GPU
  std::vector<MemoryLevel> levels;  // nearest first, private levels before shared ones; the last one is DRAM
  std::vector<std::string> features;
  double flop_per_ns = 0;         // f32 FMA peak of one compute unit at its clock under that load; an FMA is 2
  std::vector<VectorPeak> peaks;  // by width, narrowest first; flop_per_ns is that of the widest
  double fork_join_ns = 0;        // one parallel region of the runtime on all compute units, beyond its tiles
  double barrier_ns = 0;          // from one step of a region to the next, beyond their tiles
  SmRates sm = {};                // of GPUs
  DeviceRates device = {};        // of GPUs
  std::string parameters_from;    // origin: "measured on NAME" or "defaults of LEVEL"

  /// Elements of `type` in one vector register.
  int lanes(DataType type) const { return vector_bytes / type.bytes(); }
};

/// The name without its kind: "cpu:x86-64-v4" -> "x86-64-v4".
inline std::string architecture(std::string_view target) { return std::string(target.substr(target.find(':') + 1)); }
inline std::string architecture(const TargetInfo& target) { return architecture(target.name); }

/// Whether `target` has an instruction set extension: "fma", "sse4.1" (roundings to integers), "avx512vnni".
inline bool has_feature(const TargetInfo& target, std::string_view feature) {
  return std::ranges::find(target.features, feature) != target.features.end();
}

/// Bytes of a line of the nearest cache, and elements in one.
inline int64_t line_bytes(const TargetInfo& target) {
  return target.levels.empty() ? MemoryLevel().line_bytes : target.levels.front().line_bytes;
}
inline int64_t line_elements(const TargetInfo& target, DataType type) { return line_bytes(target) / type.bytes(); }

}  // namespace tw
