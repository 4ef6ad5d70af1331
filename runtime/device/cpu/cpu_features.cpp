#include "runtime/device/cpu/cpu_features.h"

#include <algorithm>

#include "runtime/format/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace tw::runtime {
namespace {

/// Each includes those before it.
struct Level {
  std::string_view name;
  std::vector<std::string> features;
};

#if defined(__x86_64__)

constexpr const char* kHostArchitecture = "x86_64";

enum Register { kEax, kEbx, kEcx, kEdx };

/// Registers that the operating system must save for a feature to be usable: bits of XCR0 (Intel SDM vol. 1, ch. 13).
constexpr uint64_t kNoState = 0;
constexpr uint64_t kAvxState = 0x6;      // XMM, YMM
constexpr uint64_t kAvx512State = 0xe6;  // and opmask, upper ZMM, ZMM16-31
constexpr uint64_t kAmxState = 0x60000;  // tile configuration and data

struct Feature {
  std::string_view name;
  uint32_t leaf;
  uint32_t subleaf;
  Register reg;
  int bit;
  uint64_t state;
};

/// CPUID bits (Intel SDM vol. 2, CPUID; AMD APM vol. 3, appendix E).
constexpr Feature kFeatures[] = {
    {"cmov", 1, 0, kEdx, 15, kNoState},
    {"cx8", 1, 0, kEdx, 8, kNoState},
    {"fxsr", 1, 0, kEdx, 24, kNoState},
    {"mmx", 1, 0, kEdx, 23, kNoState},
    {"sse", 1, 0, kEdx, 25, kNoState},
    {"sse2", 1, 0, kEdx, 26, kNoState},
    {"sse3", 1, 0, kEcx, 0, kNoState},
    {"pclmul", 1, 0, kEcx, 1, kNoState},
    {"ssse3", 1, 0, kEcx, 9, kNoState},
    {"fma", 1, 0, kEcx, 12, kAvxState},
    {"cx16", 1, 0, kEcx, 13, kNoState},
    {"sse4.1", 1, 0, kEcx, 19, kNoState},
    {"sse4.2", 1, 0, kEcx, 20, kNoState},
    {"crc32", 1, 0, kEcx, 20, kNoState},
    {"movbe", 1, 0, kEcx, 22, kNoState},
    {"popcnt", 1, 0, kEcx, 23, kNoState},
    {"aes", 1, 0, kEcx, 25, kNoState},
    {"xsave", 1, 0, kEcx, 26, kNoState},
    {"avx", 1, 0, kEcx, 28, kAvxState},
    {"f16c", 1, 0, kEcx, 29, kAvxState},
    {"rdrnd", 1, 0, kEcx, 30, kNoState},
    {"fsgsbase", 7, 0, kEbx, 0, kNoState},
    {"bmi", 7, 0, kEbx, 3, kNoState},
    {"avx2", 7, 0, kEbx, 5, kAvxState},
    {"bmi2", 7, 0, kEbx, 8, kNoState},
    {"avx512f", 7, 0, kEbx, 16, kAvx512State},
    {"avx512dq", 7, 0, kEbx, 17, kAvx512State},
    {"rdseed", 7, 0, kEbx, 18, kNoState},
    {"adx", 7, 0, kEbx, 19, kNoState},
    {"avx512ifma", 7, 0, kEbx, 21, kAvx512State},
    {"clflushopt", 7, 0, kEbx, 23, kNoState},
    {"clwb", 7, 0, kEbx, 24, kNoState},
    {"avx512cd", 7, 0, kEbx, 28, kAvx512State},
    {"sha", 7, 0, kEbx, 29, kNoState},
    {"avx512bw", 7, 0, kEbx, 30, kAvx512State},
    {"avx512vl", 7, 0, kEbx, 31, kAvx512State},
    {"avx512vbmi", 7, 0, kEcx, 1, kAvx512State},
    {"avx512vbmi2", 7, 0, kEcx, 6, kAvx512State},
    {"gfni", 7, 0, kEcx, 8, kNoState},
    {"vaes", 7, 0, kEcx, 9, kAvxState},
    {"vpclmulqdq", 7, 0, kEcx, 10, kAvxState},
    {"avx512vnni", 7, 0, kEcx, 11, kAvx512State},
    {"avx512bitalg", 7, 0, kEcx, 12, kAvx512State},
    {"avx512vpopcntdq", 7, 0, kEcx, 14, kAvx512State},
    {"avx512vp2intersect", 7, 0, kEdx, 8, kAvx512State},
    {"amx-bf16", 7, 0, kEdx, 22, kAmxState},
    {"avx512fp16", 7, 0, kEdx, 23, kAvx512State},
    {"amx-tile", 7, 0, kEdx, 24, kAmxState},
    {"amx-int8", 7, 0, kEdx, 25, kAmxState},
    {"avxvnni", 7, 1, kEax, 4, kAvxState},
    {"avx512bf16", 7, 1, kEax, 5, kAvx512State},
    {"avxifma", 7, 1, kEax, 23, kAvxState},
    {"sahf", 0x80000001, 0, kEcx, 0, kNoState},
    {"lzcnt", 0x80000001, 0, kEcx, 5, kNoState},
    {"sse4a", 0x80000001, 0, kEcx, 6, kNoState},
    {"prfchw", 0x80000001, 0, kEcx, 8, kNoState},
    {"64bit", 0x80000001, 0, kEdx, 29, kNoState},
};

/// XCR0, or 0 without XSAVE in use.
uint64_t saved_state() {
  uint32_t regs[4] = {};
  constexpr uint32_t kOsxsave = 1u << 27;
  if (__get_cpuid(1, &regs[0], &regs[1], &regs[2], &regs[3]) == 0 || (regs[kEcx] & kOsxsave) == 0) return 0;
  uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

bool host_has(const Feature& feature) {
  uint32_t regs[4] = {};
  if (__get_cpuid_count(feature.leaf, feature.subleaf, &regs[0], &regs[1], &regs[2], &regs[3]) == 0) return false;
  return (regs[feature.reg] >> feature.bit & 1) != 0 && (saved_state() & feature.state) == feature.state;
}

/// Levels of the x86-64 psABI.
const std::vector<Level>& levels() {
  static const std::vector<Level> kLevels = {
      {"x86-64", {"cmov", "cx8", "fxsr", "mmx", "sse", "sse2"}},
      {"x86-64-v2", {"cx16", "sahf", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"}},
      {"x86-64-v3", {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}},
      {"x86-64-v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}},
  };
  return kLevels;
}

#elif defined(__aarch64__)

constexpr const char* kHostArchitecture = "aarch64";

struct Feature {
  std::string_view name;
  unsigned long bit;  // of AT_HWCAP (Linux, arch/arm64/include/uapi/asm/hwcap.h)
};

constexpr Feature kFeatures[] = {{"fp-armv8", 1ul << 0}, {"neon", 1ul << 1},      {"aes", 1ul << 3},
                                 {"lse", 1ul << 8},      {"fullfp16", 1ul << 10}, {"rdm", 1ul << 12},
                                 {"dotprod", 1ul << 20}, {"sve", 1ul << 22}};

bool host_has(const Feature& feature) { return (getauxval(AT_HWCAP) & feature.bit) != 0; }

const std::vector<Level>& levels() {
  static const std::vector<Level> kLevels = {{"aarch64", {"fp-armv8", "neon"}}};
  return kLevels;
}

#endif

/// The features that an architecture name implies ("x86-64-v3", or with more "x86-64-v4+avx512vnni"); nothing when it
/// is unknown or belongs to another architecture than the host's.
std::optional<std::vector<std::string>> features_of_arch(std::string_view arch) {
  std::vector<std::string> features;
  size_t plus = std::min(arch.find('+'), arch.size());
  const std::string_view base = arch.substr(0, plus);
  const auto is_base = [&](const Level& level) { return level.name == base; };
  if (std::none_of(levels().begin(), levels().end(), is_base)) return std::nullopt;
  for (const Level& level : levels()) {
    features.insert(features.end(), level.features.begin(), level.features.end());
    if (is_base(level)) break;
  }
  while (plus < arch.size()) {
    const size_t next = std::min(arch.find('+', plus + 1), arch.size());
    features.emplace_back(arch.substr(plus + 1, next - plus - 1));
    plus = next;
  }
  return features;
}

/// Why this machine cannot run code for `target`; empty when it can.
std::string why_not(const format::ManifestTarget& target) {
  std::optional<std::vector<std::string>> required = features_of_arch(target.arch);
  if (!required)
    return format::join("the artefact is for the architecture '", target.arch, "'; this machine is ",
                        kHostArchitecture);
  required->insert(required->end(), target.features.begin(), target.features.end());
  std::string list;
  for (const std::string& name : missing_cpu_features(*required)) {
    if ((", " + list + ", ").find(", " + name + ", ") == std::string::npos) list += (list.empty() ? "" : ", ") + name;
  }
  if (list.empty()) return "";
  return format::join("the artefact for ", target.arch, " needs CPU features that this machine lacks: ", list);
}

}  // namespace

std::vector<std::string> missing_cpu_features(const std::vector<std::string>& required) {
  std::vector<std::string> missing;
  for (const std::string& name : required) {
    const auto is_there = [&](const Feature& feature) { return feature.name == name && host_has(feature); };
    if (std::none_of(std::begin(kFeatures), std::end(kFeatures), is_there)) missing.push_back(name);
  }
  return missing;
}

size_t choose_cpu_target(std::span<const format::ManifestTarget> targets, const std::string& level) {
  std::string known, reasons;
  for (size_t t = 0; t < targets.size(); ++t) {
    known += (t == 0 ? "" : ", ") + targets[t].arch;
    if (!level.empty() && targets[t].arch != level) continue;
    const std::string reason = why_not(targets[t]);
    if (reason.empty()) return t;
    reasons += (reasons.empty() ? "" : "; ") + reason;
  }
  if (reasons.empty())
    format::fail(format::ErrorCode::kInvalidArgument, "the artefact has no level '", level, "'; it has ", known);
  format::fail(format::ErrorCode::kIncompatible, reasons);
}

}  // namespace tw::runtime
