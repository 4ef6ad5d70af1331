// Every pass alone, all of them, and none of the optional ones leave what a graph computes as it is.
#include <gtest/gtest.h>

#include "support/error.h"
#include "tests/transform/graph_tools.h"

namespace tw::transform {
namespace {

using graph::Graph;
using testing::context;
using testing::expect_same_function;

constexpr uint64_t kGraphs = 600;
constexpr double kReassociated = 1e-9;  // folding and patterns change the order of f64 operations

// Passes that only move and share what is computed.
bool is_exact(std::string_view pass) { return pass != "canonicalize" && pass != "fold-batch-norm"; }

class EachPass : public ::testing::TestWithParam<std::string> {};

TEST_P(EachPass, KeepsTheFunctionOfRandomGraphs) {
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    const Graph before = testing::random_graph(seed);
    const Graph after = testing::run_pass(before, GetParam());
    expect_same_function(before, after, is_exact(GetParam()) ? 0 : kReassociated, seed);
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << graph::to_string(before) << graph::to_string(after);
  }
}

// A second run finds nothing: what a pass promises holds after it.
TEST_P(EachPass, IsDoneAfterOneRun) {
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    const Graph once = testing::run_pass(testing::random_graph(seed), GetParam());
    const Graph twice = testing::run_pass(once, GetParam());
    ASSERT_EQ(once.nodes.size(), twice.nodes.size()) << "seed " << seed << "\n"
                                                     << graph::to_string(once) << graph::to_string(twice);
  }
}

TEST_P(EachPass, TextRoundTrip) {
  for (uint64_t seed = 0; seed < kGraphs / 4; ++seed) {
    const Graph after = testing::run_pass(testing::random_graph(seed), GetParam());
    const std::string text = graph::to_string(after);
    ASSERT_EQ(graph::to_string(graph::parse_graph(text, graph::large_constants(after))), text) << "seed " << seed;
  }
}

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const GraphPass& pass : pipeline()) names.emplace_back(pass.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Passes, EachPass, ::testing::ValuesIn(pass_names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(WholePipeline, KeepsTheFunctionOfRandomGraphs) {
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    const Graph before = testing::random_graph(seed);
    RunOptions off;
    off.all_optional_off = true;
    expect_same_function(before, transform(before, context(), off), 0, seed);
    const Graph after = transform(before, context(), {});
    for (const graph::Node& node : after.nodes) ASSERT_TRUE(node.is_group());
    expect_same_function(before, after, kReassociated, seed);
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << graph::to_string(before) << graph::to_string(after);
  }
}

TEST(WholePipeline, KeepsTheFunctionWithOnePassOff) {
  for (const GraphPass& pass : pipeline()) {
    if (!pass.optional) continue;
    RunOptions options;
    options.disabled = {std::string(pass.name)};
    for (uint64_t seed = 0; seed < kGraphs / 8; ++seed) {
      const Graph before = testing::random_graph(seed);
      expect_same_function(before, transform(before, context(), options), kReassociated, seed);
      if (HasFailure()) FAIL() << "without " << pass.name << ", seed " << seed;
    }
  }
}

}  // namespace
}  // namespace tw::transform
