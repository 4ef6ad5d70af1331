// Measured times are kept under the versions of what makes code (driver/code/generate.h, code_versions). So equal
// versions must give equal code: the corpus holds te programs with schedules, versions.txt hashes of what they became.
//
// Where this fails, generated code has changed: count the version up that the message names, and write the hashes anew
// with TW_UPDATE_VERSIONS=1. That is refused where code has changed and its version has not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "codegen/cuda/version.h"
#include "codegen/llvm/version.h"
#include "driver/code/generate.h"
#include "driver/code/group_code.h"
#include "lower/version.h"
#include "support/hash.h"
#include "templates/version.h"
#ifdef TW_HAVE_CUDA
#include "codegen/cuda/emit.h"
#include "templates/source.h"
#endif

namespace tw::driver::test {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = TW_SOURCE_DIR "/tests/versions";
const fs::path kHashes = kFolder / "versions.txt";

/// A stage on the way to code, by whose version its results are kept.
struct Stage {
  std::string name, version, header;
};
// LLVM of another version gives other code under the same emitter; it is part of the key by itself.
#ifdef TW_HAVE_LLVM
const std::string kLlvm = codegen::cpu::llvm_version();
#else
const std::string kLlvm = "none";
#endif
const Stage kStages[] = {
    {"lowering", std::to_string(lower::kLoweringVersion), "src/lower/version.h"},
    {"llvm", std::to_string(codegen::cpu::kEmitterVersion), "src/codegen/llvm/version.h"},
    {"cuda", std::to_string(codegen::kEmitterVersion), "src/codegen/cuda/version.h"},
    {"templates", std::to_string(templates::kTemplateVersion), "src/templates/version.h"},
};
const Stage& kLowering = kStages[0];

/// What a case became: the hash of the result of each stage.
using Hashes = std::map<std::string, std::string>;
/// versions.txt: versions by stage, and hashes by case.
struct Known {
  std::map<std::string, std::string> versions;
  std::string llvm;
  std::map<std::string, Hashes> cases;
};

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename Bytes>
std::string short_hash(const Bytes& bytes) {
  return content_hash(bytes).substr(0, 16);
}

/// "target NAME", a te program with its tensors as they are stored, "schedule", a schedule.
struct Case {
  targets::Target target;
  te::Program program;
  plan::GroupPlan plan;
};
Case read_case(const fs::path& path) {
  const std::string text = read(path), mark = "\nschedule\n";
  const size_t first = text.find('\n'), schedule = text.find(mark);
  EXPECT_TRUE(text.starts_with("target ") && schedule != std::string::npos) << path;
  Case out{
      targets::find_target(text.substr(7, first - 7)), te::parse_program(text.substr(first, schedule - first)), {}};
  out.plan.schedule = schedule::parse_schedule(text.substr(schedule + mark.size()));
  return out;
}

Hashes compile(const Case& c) {
  GroupOptions options;
  options.lower.lower = lowering_for(c.target.info, Precision::kDefault);
  const loop::Program loops = lower_group(c.program, c.plan, options);
  Hashes out = {{"lowering", short_hash(loop::to_string(loops))}};
  [[maybe_unused]] const std::string name = "corpus";
#ifdef TW_HAVE_LLVM
  Cubins cubins;
  if (c.target.info.kind == DeviceKind::kCpu) {
    const CodeTask task = {loops, name};
    const std::vector<std::byte> code = generate({&task, 1}, c.target.info, {1, cubins}).programs.front().bytes;
    out["llvm"] = short_hash(std::span(code));
  }
#endif
#ifdef TW_HAVE_CUDA
  if (c.target.info.kind == DeviceKind::kCuda) out["cuda"] = short_hash(codegen::emit_cuda(loops, name).text);
#endif
  return out;
}

/// Of each family of templates the first row, with an epilogue.
std::map<std::string, Hashes> compile_templates() {
  std::map<std::string, Hashes> out;
#ifdef TW_HAVE_CUDA
  std::map<templates::Family, templates::Row> first;
  for (const templates::Row& row : templates::rows()) first.try_emplace(row.family, row);
  for (const auto& [family, row] : first) {
    templates::Instance instance{row};
    instance.architecture = templates::architecture_of(family);
    instance.epilogue = loop::parse_epilogue("x2:f16:column max(x0 + cast<f32>(x1), 0:f32)");
    std::string text = templates::source_of(instance);
    for (const std::string& option : templates::compiler_options(instance)) text += option + "\n";
    out["template " + name_of(row)] = {{"templates", short_hash(text)}};
  }
#endif
  return out;
}

std::map<std::string, Hashes> compile_all() {
  std::map<std::string, Hashes> out = compile_templates();
  for (const fs::directory_entry& file : fs::directory_iterator(kFolder / "corpus"))
    out[file.path().stem().string()] = compile(read_case(file.path()));
  return out;
}

// "version lowering 1", "llvm LLVM 19.1.7", "case NAME lowering=HASH llvm=HASH".
Known read_known() {
  Known known;
  std::istringstream lines(read(kHashes));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string what, name, word;
    words >> what;
    if (what == "version") words >> name >> known.versions[name];
    if (what == "compiler") std::getline(words >> std::ws, known.llvm);
    if (what != "case") continue;
    std::getline(words >> std::ws, name, ':');
    while (words >> word) known.cases[name][word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  }
  return known;
}

// What this build does not make (TW_CUDA=OFF, TW_LLVM=OFF) stays as it is.
void write_known(const Known& old, const std::map<std::string, Hashes>& cases) {
  std::ofstream file(kHashes);
  file << "# Hashes of what tests/versions/corpus becomes; written by test_versions with TW_UPDATE_VERSIONS=1.\n";
  for (const Stage& stage : kStages) file << "version " << stage.name << " " << stage.version << "\n";
  file << "compiler " << kLlvm << "\n";
  for (const auto& [name, hashes] : cases) {
    Hashes all = old.cases.contains(name) ? old.cases.at(name) : Hashes();
    for (const auto& [stage, hash] : hashes) all[stage] = hash;
    file << "case " << name << ":";
    for (const auto& [stage, hash] : all) file << " " << stage << "=" << hash;
    file << "\n";
  }
}

bool is_known(const Known& known, const std::string& name, const std::string& stage) {
  return known.cases.contains(name) && known.cases.at(name).contains(stage);
}

/// The stages that gave something else than before, with the cases: the first stage on the way of each.
std::map<std::string, std::vector<std::string>> changed_stages(const Known& known,
                                                               const std::map<std::string, Hashes>& cases) {
  std::map<std::string, std::vector<std::string>> changed;
  for (const auto& [name, hashes] : cases) {
    for (const Stage& stage : kStages) {
      if (!hashes.contains(stage.name) || !is_known(known, name, stage.name)) continue;
      if (stage.name == "llvm" && kLlvm != known.llvm) continue;
      if (hashes.at(stage.name) == known.cases.at(name).at(stage.name)) continue;
      changed[stage.name].push_back(name);
      break;  // what follows takes what has changed
    }
  }
  return changed;
}

TEST(Versions, EqualVersionsGiveEqualCode) {
  const Known known = read_known();
  const std::map<std::string, Hashes> cases = compile_all();
  const std::map<std::string, std::vector<std::string>> changed = changed_stages(known, cases);
  const char* const how = "write the hashes anew: TW_UPDATE_VERSIONS=1 test_versions";
  for (const Stage& stage : kStages) {
    const auto version = known.versions.find(stage.name);
    const bool is_old = version != known.versions.end() && version->second != stage.version;
    if (const auto found = changed.find(stage.name); found != changed.end() && !is_old) {
      ADD_FAILURE() << "other code (" << stage.name << ") than before for "
                    << fmt::format("{}", fmt::join(found->second, ", "))
                    << ":\nwhere that is meant, count the version in " << stage.header
                    << " up, so that times of the old code are not taken for those of the new one, and " << how;
    }
  }
  if (std::getenv("TW_UPDATE_VERSIONS") != nullptr) {
    if (!::testing::Test::HasFailure()) write_known(known, cases);
    return;
  }
  for (const Stage& stage : kStages) {
    EXPECT_TRUE(known.versions.contains(stage.name) && known.versions.at(stage.name) == stage.version)
        << stage.header << " has version " << stage.version << ", " << kHashes << " another: " << how;
  }
  for (const auto& [name, hashes] : cases) {
    for (const auto& [stage, hash] : hashes) EXPECT_TRUE(is_known(known, name, stage)) << name << " is new: " << how;
  }
}

TEST(Versions, AreWhatTimesAreKeptUnder) {
  const std::string cpu = code_versions(targets::find_target("cpu:x86-64-v3").info);
  const std::string gpu = code_versions(targets::find_target("cuda:sm_90a").info);
  EXPECT_TRUE(cpu.starts_with(fmt::format("lowering {}\n", kLowering.version))) << cpu;
  EXPECT_NE(cpu, gpu);
#ifdef TW_HAVE_LLVM
  EXPECT_NE(cpu.find(fmt::format("emitter {} {}\n", codegen::cpu::kEmitterVersion, kLlvm)), std::string::npos) << cpu;
#endif
#ifdef TW_HAVE_CUDA
  EXPECT_NE(gpu.find(fmt::format("emitter {} ", codegen::kEmitterVersion)), std::string::npos) << gpu;
  EXPECT_NE(gpu.find(fmt::format("templates {}\n", templates::kTemplateVersion)), std::string::npos) << gpu;
#endif
}

}  // namespace
}  // namespace tw::driver::test
