// What control groups allow, of both versions: read from a picture of the system's files.
#include "runtime/host/limits.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

namespace tw::host {
namespace {

namespace fs = std::filesystem;

class LimitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tw-limits-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ + path).substr(0, (root_ + path).rfind('/')));
    std::ofstream(root_ + path) << text;
  }
  // One hierarchy of version 2, of which `shown` is mounted.
  void version_2(const std::string& group, const std::string& shown = "/") const {
    write("/proc/self/cgroup", "0::" + group + "\n");
    write("/proc/self/mountinfo", "21 1 0:20 / /proc rw - proc proc rw\n30 23 0:26 " + shown +
                                      " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }

  std::string root_;
};

TEST_F(LimitsTest, WithoutFilesThereIsNoLimit) {
  EXPECT_EQ(group_memory(root_).bytes, kUnlimited);
  EXPECT_EQ(group_memory(root_).available, kUnlimited);
  EXPECT_TRUE(std::isinf(cpu_quota(root_)));
  write("/proc/self/cgroup", "nonsense\n0::\n:::\n");
  write("/proc/self/mountinfo", "1 2\n- cgroup2\n");
  EXPECT_EQ(group_memory(root_).bytes, kUnlimited);
}

TEST_F(LimitsTest, Version2TakesTheTightestLevelAndSparesCaches) {
  version_2("/user/job");
  write("/sys/fs/cgroup/user/job/memory.max", "max\n");
  write("/sys/fs/cgroup/user/memory.max", "1000000000\n");
  write("/sys/fs/cgroup/user/memory.current", "700000000\n");
  write("/sys/fs/cgroup/user/memory.stat", "anon 5\ninactive_file 100000000\nactive_file 50000000\nshmem 7\n");
  MemoryLimit limit = group_memory(root_);
  EXPECT_EQ(limit.bytes, 1'000'000'000);
  EXPECT_EQ(limit.available, 450'000'000);
  EXPECT_EQ(limit.owner, "control group '/user'");
  write("/sys/fs/cgroup/user/job/memory.max", "200000000\n");
  write("/sys/fs/cgroup/user/job/memory.current", "300000000\n");
  limit = group_memory(root_);
  EXPECT_EQ(limit.bytes, 200'000'000);
  EXPECT_EQ(limit.available, 0);
  EXPECT_EQ(limit.owner, "control group '/user/job'");
}

TEST_F(LimitsTest, InAContainerTheGroupIsBelowWhatIsMounted) {
  version_2("/docker/abc/inner", "/docker/abc");
  write("/sys/fs/cgroup/inner/memory.max", "4096000\n");
  EXPECT_EQ(group_memory(root_).bytes, 4'096'000);
  version_2("/elsewhere", "/docker/abc");
  write("/sys/fs/cgroup/memory.max", "8192000\n");
  EXPECT_EQ(group_memory(root_).bytes, 8'192'000);
}

TEST_F(LimitsTest, Version1) {
  write("/proc/self/cgroup", "5:cpu,cpuacct:/job\n4:memory:/job\n0::/\n");
  write("/proc/self/mountinfo",
        "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "536870912\n");
  write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "136870912\n");
  write("/sys/fs/cgroup/memory/job/memory.stat", "cache 9\ntotal_inactive_file 30000000\ntotal_active_file 6870912\n");
  write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "50000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  const MemoryLimit limit = group_memory(root_);
  EXPECT_EQ(limit.bytes, 536'870'912);
  EXPECT_EQ(limit.available, 436'870'912);
  EXPECT_EQ(cpu_quota(root_), 0.5);
}

TEST_F(LimitsTest, CpuQuotaOfVersion2) {
  version_2("/a/b");
  write("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_TRUE(std::isinf(cpu_quota(root_)));
  write("/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
  EXPECT_EQ(cpu_quota(root_), 2.5);
}

TEST(Limits, OfThisMachine) {
  const MemoryLimit machine = machine_memory();
  EXPECT_GT(machine.bytes, int64_t{64} << 20);
  EXPECT_GT(machine.available, 0);
  EXPECT_LE(memory_limit().available, machine.available + (int64_t{1} << 30));
  EXPECT_GE(usable_cpus(), 1);
  EXPECT_LE(usable_cpus(), affinity_cpus());
}

}  // namespace
}  // namespace tw::host
