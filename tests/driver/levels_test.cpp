// Several CPU levels in one artefact: the best one that the machine has runs, each can be asked for, results agree with
// the reference on each, and what a machine lacks is refused with exit code 5.
#include "tests/driver/levels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "artefact/verify.h"
#include "support/error.h"
#include "tests/driver/small_model.h"

namespace tw::driver::test {
namespace {

Compiled compile_for(const std::string& targets) {
  CompileOptions options;
  options.target = targets;
  return compile_graph(small_model(), options);
}

const Compiled& all_levels() {
  static const Compiled kCompiled = compile_for("cpu:x86-64-v4,cpu:x86-64-v3,cpu:x86-64-v2,cpu:x86-64");
  return kCompiled;
}

struct Refusal {
  int exit_code = 0;
  std::string message;
};

Refusal load(const std::vector<uint8_t>& artefact, const std::string& level) {
  try {
    artefact::Session::load_memory(artefact, {1, false, level});
  } catch (const artefact::RuntimeFailure& failure) {
    return {failure.exit_code(), failure.what()};
  }
  return {};
}

TEST(Levels, TheBestThatThisMachineHasRuns) {
  const artefact::Session session = artefact::Session::load_memory(artefact_bytes(all_levels()), {});
  EXPECT_EQ(session.target(), *std::ranges::find_if(levels(), runs_here));
  EXPECT_EQ(session.entries(), std::vector<std::string>{"main"});
}

TEST(Levels, EachAgreesWithTheReferenceOrIsRefused) {
  const graph::Graph source = small_model();
  const std::vector<uint8_t> artefact = artefact_bytes(all_levels());
  const std::vector<artefact::Array> inputs = random_arrays(source, 1);
  int ran = 0;
  for (const std::string& level : levels()) {
    SCOPED_TRACE(level);
    if (!runs_here(level)) {
      const Refusal refusal = load(artefact, level);
      EXPECT_EQ(refusal.exit_code, 5);
      EXPECT_NE(refusal.message.find(level + " needs CPU features"), std::string::npos) << refusal.message;
      continue;
    }
    const artefact::VerifyReport report = artefact::verify_artefact(artefact, &source, inputs, {}, {level});
    EXPECT_TRUE(report.ok());
    EXPECT_EQ(report.target, level);
    // The artefact's own graph and plan of that level, too.
    EXPECT_TRUE(artefact::verify_artefact(artefact, nullptr, inputs, {}, {level}).ok());
    ++ran;
  }
  EXPECT_GE(ran, 1);
}

TEST(Levels, AnUnknownLevelIsRefusedNamingThose) {
  const Refusal refusal = load(artefact_bytes(all_levels()), "x86-64-v7");
  EXPECT_EQ(refusal.exit_code, 2);
  EXPECT_NE(refusal.message.find("x86-64-v4, x86-64-v3, x86-64-v2, x86-64"), std::string::npos) << refusal.message;
}

TEST(Levels, NoneThatFitsIsRefusedWithWhatIsMissing) {
  Compiled compiled = all_levels();
  for (format::ManifestTarget& target : compiled.manifest.targets) target.features.push_back("made-up");
  const Refusal refusal = load(artefact_bytes(compiled), "");
  EXPECT_EQ(refusal.exit_code, 5);
  for (const std::string& level : levels())
    EXPECT_NE(refusal.message.find(level + " needs"), std::string::npos) << refusal.message;
  EXPECT_NE(refusal.message.find("made-up"), std::string::npos);
}

TEST(Levels, WithExtensionsComesBeforeTheLevelAlone) {
  const Compiled compiled = compile_for("cpu:x86-64,cpu:x86-64-v4,cpu:x86-64-v4+avx512vnni,cpu:x86-64-v3+avxvnni");
  std::vector<std::string> archs;
  for (const format::ManifestTarget& target : compiled.manifest.targets) archs.push_back(target.arch);
  EXPECT_EQ(archs, (std::vector<std::string>{"x86-64-v4+avx512vnni", "x86-64-v4", "x86-64-v3+avxvnni", "x86-64"}));
  EXPECT_EQ(std::ranges::count(compiled.manifest.targets[0].features, "avx512vnni"), 1);
  const artefact::Session session = artefact::Session::load_memory(artefact_bytes(compiled), {});
  EXPECT_EQ(session.target(), *std::ranges::find_if(archs, runs_here));
}

TEST(Levels, TheNextOneRunsWhereTheBestLacksAFeature) {
  Compiled compiled = all_levels();
  for (size_t t = 0; t < 3; ++t) compiled.manifest.targets[t].features.push_back("made-up");
  EXPECT_EQ(artefact::Session::load_memory(artefact_bytes(compiled), {}).target(), "x86-64");
}

TEST(Levels, AFlippedBitInAnyLevelsCodeIsRefused) {
  // Also in code that this machine would not run.
  const std::vector<uint8_t> artefact = artefact_bytes(all_levels());
  const LargeArray& code = all_levels().sections.at("code");
  const auto at = std::search(artefact.begin(), artefact.end(), code.begin(), code.end());
  ASSERT_NE(at, artefact.end());
  for (const format::Kernel& kernel : all_levels().manifest.kernels) {
    std::vector<uint8_t> bytes = artefact;
    bytes[static_cast<size_t>(at - artefact.begin() + kernel.offset)] ^= 1;
    ASSERT_EQ(load(bytes, "").exit_code, 5) << kernel.offset;
  }
}

TEST(Levels, WeightsOfEqualLayoutsAreStoredOnce) {
  // Both have the same vectors and machine parameters, so the same schedules.
  const size_t one = compile_for("cpu:x86-64").sections.at("weights").size();
  EXPECT_EQ(compile_for("cpu:x86-64-v2,cpu:x86-64").sections.at("weights").size(), one);
  const size_t wide = compile_for("cpu:x86-64-v4").sections.at("weights").size();
  EXPECT_LT(compile_for("cpu:x86-64-v4,cpu:x86-64").sections.at("weights").size(), one + wide);
}

TEST(Levels, TheOrderGivenDoesNotMatter) {
  EXPECT_EQ(artefact_bytes(compile_for("cpu:x86-64,cpu:x86-64-v3")),
            artefact_bytes(compile_for("cpu:x86-64-v3,cpu:x86-64")));
}

TEST(Levels, APlanReplaysAllOfThem) {
  CompileOptions replay;
  replay.target = "cpu:x86-64-v3,cpu:x86-64";
  const Compiled first = compile_for(replay.target);
  replay.plan_text = plan::to_string(first.plan);
  EXPECT_EQ(plan::parse_plan(replay.plan_text), first.plan);
  EXPECT_EQ(artefact_bytes(compile_graph(small_model(), replay)), artefact_bytes(first));
  replay.target = "cpu:x86-64-v3";
  EXPECT_THROW(compile_graph(small_model(), replay), UsageError);
}

TEST(Levels, WrongListsAreRefused) {
  EXPECT_THROW(compile_for("cpu:x86-64,cpu:x86-64"), UsageError);
  EXPECT_THROW(compile_for("cpu:x86-64,"), UsageError);
  EXPECT_THROW(compile_for("cpu:x86-64,cuda:sm_90a"), UsageError);
}

// The instructions of an artefact's code as `objdump` prints them.
std::string disassemble(const Compiled& compiled) {
  const std::string path = testing::TempDir() + "levels_code.bin";
  const LargeArray& code = compiled.sections.at("code");
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(code.data()), static_cast<std::streamsize>(code.size()));
  const std::string command = "objdump -D -b binary -m i386:x86-64 '" + path + "' 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  std::array<char, 4096> part{};
  for (size_t n = 0; (n = fread(part.data(), 1, part.size(), pipe.get())) > 0;) text.append(part.data(), n);
  std::filesystem::remove(path);
  return text;
}

TEST(Levels, EachUsesItsOwnInstructions) {
  const std::string v4 = disassemble(compile_for("cpu:x86-64-v4"));
  if (v4.empty()) GTEST_SKIP() << "not run: no objdump";
  EXPECT_NE(v4.find("%zmm"), std::string::npos);
  EXPECT_NE(v4.find("vfmadd"), std::string::npos);
  const std::string v3 = disassemble(compile_for("cpu:x86-64-v3"));
  EXPECT_NE(v3.find("vfmadd"), std::string::npos);
  EXPECT_EQ(v3.find("%zmm"), std::string::npos);
  const std::string base = disassemble(compile_for("cpu:x86-64"));
  EXPECT_NE(base.find("mulps"), std::string::npos);
  EXPECT_EQ(base.find("vfmadd"), std::string::npos);
  EXPECT_EQ(base.find("%ymm"), std::string::npos);
}

}  // namespace
}  // namespace tw::driver::test
