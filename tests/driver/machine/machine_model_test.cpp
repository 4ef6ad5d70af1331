// Machine parameters of the target "cpu": from the file, measured, or defaults; the file itself.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "driver/machine/bounds.h"
#include "driver/machine/machine.h"
#include "driver/machine/parameters_file.h"
#include "support/error.h"
#include "support/folders.h"
#include "tests/driver/machine/sample.h"

namespace tw::driver::machine {
namespace {

using test::Folder;
using test::measured_sample;
using test::read_text;

// Resolves "cpu" with a measurement of our own; counts measurements and keeps notices.
struct Machine {
  explicit Machine(const std::string& folder) {
    options.parameters = Parameters::kMeasured;
    options.folder = folder;
    options.notice = [this](const std::string& sentence) { notices.push_back(sentence); };
    options.measure = [this](const TargetInfo&, const targets::HostCpu&) {
      ++measurements;
      return measured_sample(scale);
    };
  }
  TargetInfo resolve() { return resolve_target("cpu", options).info; }
  std::string path() { return parameters_path(targets::find_target("cpu").info, options); }

  MachineOptions options;
  std::vector<std::string> notices;
  int measurements = 0;
  double scale = 1;
};

std::string text_of(const TargetInfo& info) { return parameters_text(info, "{}"); }

TEST(MachineModel, MeasuredOnceAndKept) {
  const Folder folder;
  Machine machine(folder.path() + "/not/there/yet");
  const TargetInfo first = machine.resolve();
  EXPECT_EQ(machine.measurements, 1);
  ASSERT_EQ(machine.notices.size(), 1u);
  EXPECT_NE(machine.notices[0].find("measuring this machine once"), std::string::npos);
  EXPECT_EQ(first.levels[0].read_per_ns, 200);
  machine.scale = 3;
  const TargetInfo second = machine.resolve();
  EXPECT_EQ(machine.measurements, 1) << "the file is used";
  EXPECT_EQ(machine.notices.size(), 1u);
  EXPECT_EQ(text_of(second), text_of(first)) << "the same bits from the file as from the measurement";
  EXPECT_EQ(second.parameters_from, "measured on a sample");
  machine.options.parameters = Parameters::kMeasuredAnew;
  EXPECT_EQ(machine.resolve().levels[0].read_per_ns, 600);
  machine.options.parameters = Parameters::kMeasured;
  EXPECT_EQ(machine.resolve().levels[0].read_per_ns, 600);
  EXPECT_EQ(machine.measurements, 2);
}

TEST(MachineModel, DefaultsTouchNothing) {
  const Folder folder;
  Machine machine(folder.path());
  machine.options.parameters = Parameters::kDefaults;
  EXPECT_EQ(text_of(machine.resolve()), text_of(targets::find_target("cpu").info));
  EXPECT_EQ(machine.measurements, 0);
  EXPECT_FALSE(std::filesystem::exists(folder.path()));
}

TEST(MachineModel, LevelsAreNeverMeasured) {
  const Folder folder;
  Machine machine(folder.path());
  const TargetInfo v3 = resolve_target("cpu:x86-64-v3", machine.options).info;
  EXPECT_EQ(v3.parameters_from, "defaults of x86-64-v3");
  EXPECT_EQ(machine.measurements, 0);
  EXPECT_THROW(resolve_target("cpu:z80", machine.options), UsageError);
}

TEST(MachineModel, AFolderThatCannotBeWrittenMeansDefaults) {
  Machine machine("/dev/null");
  for (int time = 0; time < 2; ++time) EXPECT_EQ(text_of(machine.resolve()), text_of(targets::find_target("cpu").info));
  EXPECT_EQ(machine.measurements, 0);
  ASSERT_EQ(machine.notices.size(), 2u);
  EXPECT_NE(machine.notices[0].find("/dev/null"), std::string::npos);
  machine.options.parameters = Parameters::kMeasuredAnew;
  EXPECT_EQ(machine.resolve().levels[0].read_per_ns, 200) << "asked for explicitly: measured, not kept";
  EXPECT_NE(machine.notices.back().find("not kept"), std::string::npos);
}

TEST(MachineModel, AMeasurementThatFailsMeansDefaults) {
  const Folder folder;
  Machine machine(folder.path());
  machine.options.measure = [](const TargetInfo&, const targets::HostCpu&) -> TargetInfo {
    throw ResourceError("no memory for measuring");
  };
  EXPECT_EQ(text_of(machine.resolve()), text_of(targets::find_target("cpu").info));
  EXPECT_NE(machine.notices.back().find("no memory for measuring"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(machine.path()));
}

TEST(MachineModel, ADamagedFileIsMeasuredAnew) {
  const Folder folder;
  Machine machine(folder.path());
  machine.resolve();
  const std::string whole = read_text(machine.path());
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  };
  const std::string damaged[] = {"",
                                 "{}",
                                 "\xff\xfe",
                                 whole.substr(0, whole.size() / 2),
                                 whole + " ",
                                 replaced("\"read_per_ns\": 200", "\"read_per_ns\": -200"),
                                 replaced("\"read_per_ns\": 200", "\"read_per_ns\": \"200\""),
                                 replaced("\"read_per_ns\": 200", "\"read_per_ns\": 1"),
                                 replaced("\"read_per_ns\"", "\"frob\""),
                                 replaced("\"ways\"", "\"frob\": 1, \"ways\""),
                                 replaced("\"stepping\"", "\"steppin\""),
                                 replaced("tilewright.machine.v1", "tilewright.machine.v2")};
  int measurements = machine.measurements;
  for (const std::string& text : damaged) {
    std::ofstream(machine.path(), std::ios::binary) << text;
    machine.notices.clear();
    EXPECT_EQ(machine.resolve().levels[0].read_per_ns, 200);
    EXPECT_EQ(machine.measurements, ++measurements) << text.substr(0, 80);
    ASSERT_EQ(machine.notices.size(), 2u) << text.substr(0, 80);
    EXPECT_NE(machine.notices[0].find(machine.path()), std::string::npos);
    EXPECT_EQ(read_text(machine.path()), whole) << "and the file is whole again";
  }
}

TEST(MachineModel, OneOfManyMeasures) {
  const Folder folder;
  std::atomic<int> measurements = 0;
  std::vector<std::thread> threads;
  std::vector<std::string> results(5);
  for (size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&, t] {
      MachineOptions options;
      options.parameters = Parameters::kMeasured;
      options.folder = folder.path();
      options.measure = [&](const TargetInfo&, const targets::HostCpu&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return measured_sample(++measurements);
      };
      results[t] = text_of(resolve_target("cpu", options).info);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(measurements, 1);
  for (const std::string& result : results) EXPECT_EQ(result, results[0]);
}

TEST(MachineModel, KeysTellMachinesApart) {
  const TargetInfo target = targets::find_target("cpu").info;
  const targets::HostCpu cpu = targets::host_cpu();
  const std::string key = machine_key(cpu, target);
  std::vector<targets::HostCpu> others(6, cpu);
  others[0].name += "X";
  others[1].model += 1;
  others[2].stepping += 1;
  others[3].compute_units += 1;
  others[4].caches.push_back({4, 1 << 30, 16, 64, 1});
  others[5].family += 1;
  for (const targets::HostCpu& other : others) EXPECT_NE(machine_key(other, target), key);
  TargetInfo level = target;
  level.name = "cpu:other";
  EXPECT_NE(machine_key(cpu, level), key);
  const std::string text = parameters_text(plausible(measured_sample(), target), key);
  EXPECT_TRUE(parse_parameters(text, key, target).ok());
  EXPECT_FALSE(parse_parameters(text, machine_key(others[3], target), target).ok());
}

TEST(MachineModel, NamesThatAreNoTextAreKept) {
  targets::HostCpu cpu = targets::host_cpu();
  cpu.name = "odd \xff \"name\"";
  const TargetInfo target = targets::find_target("cpu").info;
  TargetInfo info = plausible(measured_sample(), target);
  const std::string key = machine_key(cpu, target);
  EXPECT_TRUE(parse_parameters(parameters_text(info, key), key, target).ok());
}

// One variable of the environment for a test's duration.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    const char* old = std::getenv(name);
    if (old != nullptr) old_ = old;
    set(value);
  }
  ~Variable() { set(old_ ? old_->c_str() : nullptr); }
  void set(const char* value) { value == nullptr ? unsetenv(name_) : setenv(name_, value, 1); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

TEST(Folders, CacheFolder) {
  Variable own("TILEWRIGHT_CACHE_DIR", "/own"), xdg("XDG_CACHE_HOME", "/xdg"), home("HOME", "/home/me");
  EXPECT_EQ(cache_folder(), "/own");
  own.set("");
  EXPECT_EQ(cache_folder(), "/xdg/tilewright");
  xdg.set("relative");
  EXPECT_EQ(cache_folder(), "/home/me/.cache/tilewright");
  home.set(nullptr);
  EXPECT_EQ(cache_folder(), "");
}

}  // namespace
}  // namespace tw::driver::machine
