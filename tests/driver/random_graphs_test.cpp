// Random models compile, run and agree with the f64 reference: group by group and end to end, with the default passes
// and with every optional pass off.
#include <gtest/gtest.h>

#include <algorithm>

#include "artefact/verify.h"
#include "driver/tune/tolerance.h"
#include "ops/list.h"
#include "tests/driver/random_model.h"

namespace tw::driver::test {
namespace {

constexpr uint64_t kSeedsEach = 10;  // of a test case; ten cases make a hundred models

const graph::OpTable& operators() {
  static const graph::OpTable kOps = ops::all_ops();
  return kOps;
}

std::string describe(const WorstElement& w) {
  return fmt::format("{}[{}] is {}, not {} within {}: {} of {} elements wrong\n", w.tensor, w.index, w.got, w.want,
                     w.bound, w.wrong, w.elements);
}

std::string describe(const artefact::VerifyReport& report) {
  std::string text = report.same_bits_for_threads ? "" : "other bits with one thread\n";
  if (!report.same_bits_apart) text += "other bits when values do not share memory\n";
  for (const artefact::GroupCheck& group : report.groups) {
    for (const WorstElement& w : group.outputs)
      text += w.ok() ? "" : fmt::format("group {} ({}): {}", group.group, group.family, describe(w));
  }
  for (const WorstElement& w : report.outputs) text += w.ok() ? "" : "end to end: " + describe(w);
  return text;
}

class RandomModels : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RandomModels, AgreeWithTheReference) {
  for (uint64_t seed = GetParam() * kSeedsEach + 1; seed <= (GetParam() + 1) * kSeedsEach; ++seed) {
    const graph::Graph model = random_model(operators(), seed);
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, graph::to_string(model)));
    const std::vector<artefact::Array> inputs = random_arrays(model, seed);
    for (const bool all_off : {false, true}) {
      CompileOptions options;
      options.all_optional_off = all_off;
      try {
        const artefact::VerifyReport report = artefact::verify_graph(model, options, inputs, {});
        EXPECT_TRUE(report.ok()) << (all_off ? "optional passes off\n" : "default passes\n") << describe(report);
      } catch (const std::exception& error) {
        ADD_FAILURE() << (all_off ? "optional passes off: " : "default passes: ") << error.what();
      }
    }
  }
}

// Without fused multiply-adds and roundings to integers.
TEST_P(RandomModels, AgreeAtTheLeastLevel) {
  for (uint64_t seed = GetParam() * kSeedsEach + 1; seed <= (GetParam() + 1) * kSeedsEach; ++seed) {
    const graph::Graph model = random_model(operators(), seed);
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, graph::to_string(model)));
    CompileOptions options;
    options.target = "cpu:x86-64";
    const artefact::VerifyReport report = artefact::verify_graph(model, options, random_arrays(model, seed), {});
    EXPECT_TRUE(report.ok()) << describe(report);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomModels, ::testing::Range<uint64_t>(0, 10));

}  // namespace
}  // namespace tw::driver::test
