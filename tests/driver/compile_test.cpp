// The compiler as a whole on random models: right against the reference, repeatable, and refused when damaged.
#include "driver/compile.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "driver/session.h"
#include "driver/verify.h"
#include "ops/list.h"
#include "support/error.h"
#include "tests/driver/random_model.h"

namespace tw::driver {
namespace {

constexpr int kModels = 60;

const graph::OpTable& table() {
  static const graph::OpTable ops = ops::all_ops();
  return ops;
}

graph::Graph model(uint64_t seed) { return test::random_model(table(), seed); }

std::string describe(const VerifyReport& report) {
  std::string text;
  const auto add = [&](const WorstElement& w) {
    text += fmt::format("{}: {} of {} wrong, at {} got {} want {} bound {}\n", w.tensor, w.wrong, w.elements, w.index,
                        w.got, w.want, w.bound);
  };
  for (const GroupCheck& g : report.groups) {
    if (g.ok()) continue;
    text += "group " + g.group + " (" + g.family + ")\n";
    for (const WorstElement& w : g.outputs) add(w);
  }
  for (const WorstElement& w : report.outputs) add(w);
  return text;
}

void check_models(bool plain) {
  for (int seed = 1; seed <= kModels; ++seed) {
    const graph::Graph source = model(seed);
    CompileOptions options;
    options.all_optional_off = plain;
    const VerifyReport report = verify_graph(source, options, test::random_arrays(source, seed), {});
    EXPECT_TRUE(report.ok()) << "seed " << seed << "\n" << describe(report) << graph::to_string(source);
  }
}

TEST(Compile, RandomModelsAreRight) { check_models(false); }

TEST(Compile, RandomModelsAreRightWithoutOptionalPasses) { check_models(true); }

TEST(Compile, TheSameInputGivesTheSameBytes) {
  const Compiled first = compile_graph(model(7), {});
  EXPECT_EQ(artefact_bytes(first), artefact_bytes(compile_graph(model(7), {})));
  CompileOptions replay;
  replay.plan_text = plan::to_string(first.plan);
  EXPECT_EQ(artefact_bytes(first), artefact_bytes(compile_graph(model(7), replay)));
}

// Exit code with which the runtime refuses the bytes; 0 when it accepts them.
int refusal(const std::vector<uint8_t>& bytes) {
  try {
    Session::load_memory(bytes, {1, false});
  } catch (const RuntimeFailure& failure) {
    return failure.exit_code();
  }
  return 0;
}

TEST(Compile, DamagedArtefactsAreRefused) {
  const std::vector<uint8_t> good = artefact_bytes(compile_graph(model(3), {}));
  ASSERT_EQ(refusal(good), 0);
  for (size_t size = 0; size < 4096; ++size) {
    ASSERT_EQ(refusal({good.begin(), good.begin() + static_cast<long>(size)}), 5) << "truncated to " << size;
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 10000; ++i) {
    std::vector<uint8_t> bad = good;
    const size_t bit = random() % (bad.size() * 8);
    bad[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    ASSERT_EQ(refusal(bad), 5) << "bit " << bit;
  }
}

TEST(Compile, AnyNumberOfThreadsGivesTheSameBits) {
  const graph::Graph source = model(11);
  const std::vector<Array> inputs = test::random_arrays(source, 11);
  const std::vector<uint8_t> artefact = artefact_bytes(compile_graph(source, {}));
  const std::vector<Array> one = Session::load_memory(artefact, {1, false}).run(inputs);
  for (const int threads : {2, 3}) {
    const std::vector<Array> many = Session::load_memory(artefact, {threads, false}).run(inputs);
    for (size_t i = 0; i < one.size(); ++i)
      EXPECT_EQ(one[i].bytes, many[i].bytes) << threads << " threads, output " << i;
  }
}

TEST(Compile, DumpsOneFileForEveryPass) {
  const auto folder =
      std::filesystem::temp_directory_path() / fmt::format("tilewright-dump-{}", std::random_device{}());
  CompileOptions options;
  options.dump_directory = folder.string();
  compile_graph(model(5), options);
  const auto files = std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
  std::filesystem::remove_all(folder);
  EXPECT_GT(files, 10);
}

TEST(Compile, UnknownPassesAreUsageErrors) {
  CompileOptions options;
  options.disabled_passes = {"no-such-pass"};
  EXPECT_THROW(compile_graph(model(5), options), UsageError);
}

}  // namespace
}  // namespace tw::driver
