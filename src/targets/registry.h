// The targets, as a visible list.
#pragma once
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "construct/construct.h"
#include "core/target_info.h"

namespace tw::targets {

/// A target: its properties and its schedule families in order of preference.
struct Target {
  TargetInfo info;
  std::span<const construct::Constructor> families;
  bool lacks_families = false;  // that own groups: the caller switched some off

  size_t owners() const {
    return static_cast<size_t>(
        std::ranges::count(families, construct::FamilyKind::kOwns, &construct::Constructor::kind));
  }
};

/// The target named `name`: "cpu" is this host, "cpu:x86-64", "cpu:x86-64-v2|v3|v4", with extensions
/// "cpu:x86-64-v3+avxvnni", "cpu:x86-64-v4+avx512bf16+avx512vnni" in any order; "cpu:aarch64"; "cuda:sm_80",
/// "cuda:sm_90a". UsageError
/// listing all when there is none, or when this build leaves it out. Machine parameters are defaults; of "cpu",
/// driver/machine has measured ones.
Target find_target(const std::string& name);
/// All names that find_target takes, for help texts.
std::vector<std::string> target_names();

/// What a CPU target needs and this machine lacks: "avx512bf16", "neon".
std::vector<std::string> missing_here(const TargetInfo& target);

/// cpu_families.cpp: of all CPUs.
std::span<const construct::Constructor> cpu_families();
/// x86_64/target.cpp: the levels and these with their extensions, with machine parameters that do not depend on the
/// machine.
std::vector<TargetInfo> x86_64_levels();
/// The widest level that this machine runs, with those extensions that it has, the sizes of its caches, its memory and
/// its number of CPUs; other machine parameters are those of its CPU if it is a known one, else the level's.
TargetInfo x86_64_host();
/// Whether this machine has a feature of x86_64_levels(): "avx512bf16".
bool x86_64_has(const std::string& feature);
/// aarch64/target.cpp: Armv8.0-A, with machine parameters of a Cortex-A76.
std::vector<TargetInfo> aarch64_levels();
/// cuda/target.cpp
std::vector<TargetInfo> cuda_architectures();
std::span<const construct::Constructor> cuda_families();
/// cuda/cutlass_family.cpp: rows of the library of templates that are built, best predicted first, for groups that they
/// compute; of the right architecture.
Result<construct::Candidates> construct_templates(const construct::GroupTask& task, const TargetInfo& target);

/// The rates of the GPU that calls itself `gpu` ("NVIDIA H100 80GB HBM3"); of one without a row those of the data sheet
/// that stands for `architecture` ("sm_90a"), of another architecture none.
DeviceRates data_sheet(std::string_view gpu, std::string_view architecture);
/// What schedules ask of an SM of that GPU, or of the one that stands for `architecture`; nothing of another one.
SmRates sm_rates(std::string_view gpu, std::string_view architecture);

}  // namespace tw::targets
