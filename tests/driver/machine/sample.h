// A machine whose parameters are in order, and a folder of its own for each test.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "driver/machine/machine.h"

namespace tw::driver::machine::test {

/// Machine parameters as measuring gives them for the target "cpu" here; `scale` makes another machine of it.
inline TargetInfo measured_sample(double scale = 1) {
  TargetInfo info = targets::find_target("cpu").info;
  double rate = 200 * scale, ns = 1.2;
  for (MemoryLevel& level : info.levels) {
    level.latency_ns = ns;
    level.read_per_ns = rate;
    level.write_per_ns = rate / 2;
    level.copy_per_ns = rate * 0.9;
    level.all_per_ns = rate * 2;
    for (ChunkBandwidth& chunk : level.chunks) chunk.bytes_per_ns = rate * 0.9;
    rate /= 3;
    ns *= 5;
  }
  for (VectorPeak& peak : info.peaks) peak = {peak.vector_bytes, 50.0 * scale, 100 * scale, 3.1};
  info.flop_per_ns = info.peaks.back().flop_per_ns;
  info.fork_join_ns = 310;
  info.barrier_ns = 150;
  info.parameters_from = "measured on a sample";
  return info;
}

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class Folder {
 public:
  Folder() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = testing::TempDir() + "machine_" + test->name() + "_" + std::to_string(getpid());
    std::filesystem::remove_all(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tw::driver::machine::test
