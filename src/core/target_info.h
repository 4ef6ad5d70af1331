// What a target is, as properties: the hardware abstraction that schedules are built from. No code outside targets/ and
// driver/ asks for a target by name.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/data_type.h"

namespace tw {

enum class DeviceKind : uint8_t { kCpu, kCuda };

struct MemoryLevel {
  std::string name;            // "L1", "L2", "DRAM"
  int64_t capacity_bytes = 0;  // of one unit
  int64_t line_bytes = 64;
  int ways = 8;
};

struct TargetInfo {
  DeviceKind kind = DeviceKind::kCpu;
  std::string name;       // "cpu:x86-64-v4", "cuda:sm_90a"
  int vector_bytes = 16;  // widest vector
  int vector_registers = 16;
  int units = 1;                    // cores or SMs
  std::vector<MemoryLevel> levels;  // nearest first, private levels before shared ones
  std::vector<std::string> features;

  /// Elements of `type` in one vector register.
  int lanes(DataType type) const { return vector_bytes / type.bytes(); }
};

}  // namespace tw
