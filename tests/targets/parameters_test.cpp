// Machine parameters that are not measured: complete, in order, and for the levels the same on every machine.
#include "targets/x86_64/parameters.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/error.h"
#include "targets/registry.h"
#include "targets/x86_64/host.h"

namespace tw::targets {
namespace {

void expect_usable(const TargetInfo& info) {
  SCOPED_TRACE(info.parameters_from);
  ASSERT_GE(info.levels.size(), 2u);
  EXPECT_EQ(info.levels.back().name, "DRAM");
  ASSERT_FALSE(info.peaks.empty());
  EXPECT_EQ(info.peaks.back().vector_bytes, info.vector_bytes);
  EXPECT_EQ(info.flop_per_ns, info.peaks.back().flop_per_ns);
  for (const VectorPeak& peak : info.peaks) {
    EXPECT_GT(peak.flop_per_ns, 0);
    EXPECT_GE(peak.all_flop_per_ns, peak.flop_per_ns);
  }
  EXPECT_GT(info.fork_join_ns, 0);
  EXPECT_GT(info.barrier_ns, 0);
  for (size_t l = 0; l < info.levels.size(); ++l) {
    const MemoryLevel& level = info.levels[l];
    SCOPED_TRACE(level.name);
    EXPECT_GT(level.read_per_ns, 0);
    EXPECT_GE(level.all_per_ns, level.read_per_ns);
    ASSERT_EQ(level.chunks.size(), 6u);
    EXPECT_LE(level.chunks.back().bytes_per_ns, level.read_per_ns);
    if (l == 0) continue;
    const MemoryLevel& nearer = info.levels[l - 1];
    EXPECT_GT(level.capacity_bytes, nearer.capacity_bytes);
    EXPECT_GT(level.latency_ns, nearer.latency_ns);
    EXPECT_LT(level.read_per_ns, nearer.read_per_ns);
    EXPECT_LE(level.write_per_ns, nearer.write_per_ns);
    EXPECT_LE(level.copy_per_ns, nearer.copy_per_ns);
    EXPECT_LE(level.all_per_ns, nearer.all_per_ns);
    EXPECT_GE(level.shared, nearer.shared) << "private levels come first";
    for (size_t c = 0; c < 6; ++c) EXPECT_LE(level.chunks[c].bytes_per_ns, nearer.chunks[c].bytes_per_ns);
  }
}

TEST(MachineParameters, LevelsHaveAll) {
  for (const TargetInfo& info : x86_64_levels()) expect_usable(info);
  for (const TargetInfo& info : aarch64_levels()) expect_usable(info);
}

TEST(MachineParameters, LevelsDoNotDependOnTheMachine) {
  const TargetInfo v3 = find_target("cpu:x86-64-v3").info;
  EXPECT_EQ(v3.compute_units, 8);
  EXPECT_EQ(v3.levels[0].capacity_bytes, 32 * 1024);
  EXPECT_EQ(v3.levels[1].capacity_bytes, 512 * 1024);
  EXPECT_EQ(v3.levels[2].capacity_bytes, 16 * 1024 * 1024);
  EXPECT_EQ(v3.levels[3].capacity_bytes, int64_t{16} << 30);
  EXPECT_EQ(v3.parameters_from, "defaults of x86-64-v3");
  EXPECT_EQ(find_target("cpu:x86-64-v4").info.compute_units, 8);
}

TEST(Targets, TakeExtensionsInAnyOrder) {
  const TargetInfo both = find_target("cpu:x86-64-v4+avx512vnni+avx512bf16").info;
  EXPECT_EQ(both.name, "cpu:x86-64-v4+avx512bf16+avx512vnni");
  EXPECT_EQ(both.name, find_target("cpu:x86-64-v4+avx512bf16+avx512vnni").info.name);
  EXPECT_TRUE(has_feature(both, "avx512vnni") && has_feature(both, "avx512bf16"));
  EXPECT_FALSE(has_feature(find_target("cpu:x86-64-v4+avx512bf16").info, "avx512vnni"));
  EXPECT_EQ(both.flop_per_ns, find_target("cpu:x86-64-v4").info.flop_per_ns);
  EXPECT_TRUE(has_feature(find_target("cpu:x86-64-v3+avxvnni").info, "avxvnni"));
}

TEST(Targets, AnUnknownExtensionIsRefusedNamingThose) {
  for (const char* name : {"cpu:x86-64-v4+avx512magic", "cpu:x86-64-v3+avx512vnni", "cpu+avxvnni",
                           "cpu:x86-64-v4+avx512vnni+avx512vnni", "cpu:x86-64-v4+"}) {
    try {
      find_target(name);
      ADD_FAILURE() << name << " was taken";
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(" cpu:x86-64-v4+avx512vnni"), std::string::npos) << error.what();
    }
  }
}

TEST(Targets, TheHostsExtensionsAreThoseItHas) {
  const TargetInfo host = find_target("cpu").info;
  EXPECT_EQ(find_target(host.name).info.features, host.features);
}

TEST(MachineParameters, KnownCpusHaveAll) {
  // Cascade Lake, Sapphire Rapids, Milan, Genoa, Turin.
  const std::pair<int, int> cpus[] = {{6, 0x55}, {6, 0x8f}, {25, 0x01}, {25, 0x11}, {26, 0x02}};
  for (const auto& [family, model] : cpus) {
    const CpuRow* row = known_cpu(family, model);
    ASSERT_NE(row, nullptr) << family << ' ' << model;
    TargetInfo info;
    info.vector_bytes = row->core.flop_per_ns[2] > 0 ? 64 : 32;
    set_parameters(info, *row, std::string(row->name));
    expect_usable(info);
  }
  EXPECT_EQ(known_cpu(6, 0x3f), nullptr);
}

TEST(MachineParameters, TheHostIsComplete) {
  const TargetInfo host = find_target("cpu").info;
  expect_usable(host);
  EXPECT_EQ(host.compute_units, host_cpu().compute_units);
  EXPECT_EQ(host.levels.back().capacity_bytes, host_cpu().memory_bytes);
}

TEST(Host, CachesFromSysfs) {
  const std::filesystem::path folder = testing::TempDir() + "sysfs_caches" + std::to_string(getpid());
  const auto cache = [&](int index, const std::vector<std::pair<std::string, std::string>>& files) {
    const std::filesystem::path at = folder / ("index" + std::to_string(index));
    std::filesystem::create_directories(at);
    for (const auto& [name, text] : files) std::ofstream(at / name) << text << '\n';
  };
  cache(0, {{"level", "1"},
            {"type", "Data"},
            {"size", "48K"},
            {"ways_of_associativity", "12"},
            {"coherency_line_size", "64"},
            {"shared_cpu_list", "0,32"}});
  cache(1, {{"level", "1"}, {"type", "Instruction"}, {"size", "32K"}});
  cache(2, {{"level", "3"},
            {"type", "Unified"},
            {"size", "60M"},
            {"ways_of_associativity", "15"},
            {"coherency_line_size", "64"},
            {"shared_cpu_list", "0-15,32-47"}});
  cache(3, {{"level", "2"}, {"type", "Unified"}, {"size", "2048K"}});
  cache(4, {{"level", "4"}, {"type", "Unified"}, {"size", "unknown"}});
  const std::vector<HostCache> want = {
      {1, 48 << 10, 12, 64, 2}, {2, 2 << 20, 0, 64, 1}, {3, int64_t{60} << 20, 15, 64, 32}};
  EXPECT_EQ(sysfs_caches(folder.string()), want);
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(sysfs_caches(folder.string()).empty());
}

}  // namespace
}  // namespace tw::targets
