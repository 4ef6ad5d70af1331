// Sources. Capacities, ways and bytes a cycle: Intel 64 and IA-32 Architectures Optimization Reference Manual (2023),
// sections on Golden Cove and Skylake Server; AMD Software Optimization Guides for families 19h (models 00h, 10h) and
// 1Ah. Rows that say "measured" come from this project's own micro-benchmarks on a virtual machine with such a CPU; the
// other rows take four fifths of the bytes a cycle of the manual in L1, two thirds in L2 and the measured rows' beyond,
// at a clock that a busy server of that kind holds. They only have to rank schedules until the machine is measured.
#include "targets/x86_64/parameters.h"

#include "support/error.h"

namespace tw::targets {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;
constexpr int64_t kGiB = 1024 * kMiB;

// Levels: conservative parameters of current server cores, eight of them with 16 MiB of L3 and 16 GiB. v3 is the
// measured Zen 3, v4 the measured Cascade Lake, both with less of what is shared.
constexpr CpuRow cpu(std::string_view name, const CoreRow& core, const LevelRow& l1, const LevelRow& l2,
                     const LevelRow& l3, const LevelRow& dram) {
  return {name, core, l1, l2, l3, dram};
}

// One product and one sum of 16 bytes a cycle; caches of the first cores of these levels (Penryn, Nehalem), by the same
// manual.
constexpr CpuRow before_avx(std::string_view level) {
  return cpu(level, {{24, 0, 0}, 3.0}, {32 * kKiB, 8, 1.3, 40, 25, 40}, {256 * kKiB, 8, 4, 30, 20, 25},
             {8 * kMiB, 16, 15, 15, 12, 14, 60}, {8 * kGiB, 0, 100, 8, 5, 6, 20});
}

constexpr CpuRow kLevelRows[] = {
    before_avx("x86-64"),
    before_avx("x86-64-v2"),
    cpu("x86-64-v3", {{51, 102, 0}, 3.2}, {32 * kKiB, 8, 1.6, 180, 95, 180}, {512 * kKiB, 8, 4.2, 90, 75, 85},
        {16 * kMiB, 16, 21, 28, 24, 28, 120}, {16 * kGiB, 0, 140, 14, 10, 12, 40}),
    cpu("x86-64-v4", {{43, 86, 154}, 2.4}, {32 * kKiB, 8, 2.1, 283, 145, 273}, {1 * kMiB, 16, 5.8, 105, 45, 76},
        {16 * kMiB, 11, 26, 24, 22, 24, 120}, {16 * kGiB, 0, 110, 12, 6, 9, 40}),
};

struct Models {
  int family, first, last;
};

struct KnownRow {
  Models models;
  CpuRow row;
};

constexpr KnownRow kKnownCpus[] = {
    // Measured on two cores at 2.4 GHz.
    {{6, 0x55, 0x55},
     cpu("Skylake Server / Cascade Lake", {{43, 86, 154}, 2.4}, {32 * kKiB, 8, 2.1, 283, 145, 273},
         {1 * kMiB, 16, 5.8, 105, 45, 76}, {32 * kMiB, 11, 26, 24, 22, 24, 120}, {16 * kGiB, 0, 110, 12, 6, 9, 40})},
    // Manual: 128 B loaded and 64 B stored a cycle in L1, 64 B from L2, 2 FMA of 64 B; at 2.6 GHz.
    {{6, 0x8f, 0x8f},
     cpu("Sapphire Rapids", {{42, 83, 166}, 2.6}, {48 * kKiB, 12, 1.9, 266, 133, 266}, {2 * kMiB, 16, 5.8, 110, 55, 80},
         {60 * kMiB, 15, 35, 20, 15, 20, 120}, {16 * kGiB, 0, 120, 12, 7, 10, 60})},
    // Measured on two cores at 3.2 GHz.
    {{0x19, 0x00, 0x0f},
     cpu("Zen 3", {{51, 102, 0}, 3.2}, {32 * kKiB, 8, 1.6, 180, 100, 200}, {512 * kKiB, 8, 4.1, 100, 95, 100},
         {32 * kMiB, 16, 21, 47, 45, 54, 200}, {16 * kGiB, 0, 135, 24, 22, 21, 60})},
    // Manual: 64 B loaded and 32 B stored a cycle in L1, 32 B from L2, 2 FMA of 32 B, 1 of 64 B; at 3.5 GHz.
    {{0x19, 0x10, 0x1f},
     cpu("Zen 4", {{56, 112, 112}, 3.5}, {32 * kKiB, 8, 1.5, 179, 90, 179}, {1 * kMiB, 8, 4.1, 90, 75, 85},
         {32 * kMiB, 16, 20, 47, 45, 54, 200}, {16 * kGiB, 0, 120, 24, 22, 21, 80})},
    // Manual: 128 B loaded and 64 B stored a cycle in L1, 64 B from L2; 240 GFLOP/s and 33 GB/s of DRAM measured.
    {{0x1a, 0x00, 0x1f},
     cpu("Zen 5", {{60, 120, 240}, 3.75}, {48 * kKiB, 12, 1.4, 384, 192, 384}, {1 * kMiB, 16, 3.8, 160, 80, 120},
         {32 * kMiB, 16, 20, 50, 45, 55, 200}, {16 * kGiB, 0, 120, 33, 22, 28, 100})},
};

}  // namespace

const CpuRow& level_row(std::string_view level) {
  const auto* row = std::ranges::find(kLevelRows, level, &CpuRow::name);
  TW_CHECK(row != std::end(kLevelRows), "no defaults for the level {}", level);
  return *row;
}

const CpuRow* known_cpu(int family, int model) {
  const auto* known = std::ranges::find_if(kKnownCpus, [&](const KnownRow& k) {
    return k.models.family == family && k.models.first <= model && model <= k.models.last;
  });
  return known == std::end(kKnownCpus) ? nullptr : &known->row;
}

}  // namespace tw::targets
