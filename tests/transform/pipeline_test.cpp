#include <gtest/gtest.h>

#include "support/error.h"
#include "tests/transform/graph_tools.h"
#include "transform/pass.h"

namespace tw::transform {
namespace {

using testing::context;

constexpr const char* kMlp = R"(graph mlp {
  input x : f32[2, 3]
  const w : f32[3, 2] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
  const b : f32[2] = [0.5, -0.5]
  m : f32[2, 2] = matmul(x, w) as m
  a : f32[2, 2] = add(m, b) as a
  y : f32[2, 2] = relu(a) as y
  output y
}
)";

TEST(Pipeline, EveryNodeIsAGroup) {
  const graph::Graph result = transform(testing::parse(kMlp), context(), {});
  ASSERT_EQ(result.nodes.size(), 1u);
  EXPECT_TRUE(result.nodes[0].is_group());
  EXPECT_EQ(result.nodes[0].name, "m+a+y");
  testing::expect_same_function(testing::parse(kMlp), result, 0);
}

TEST(Pipeline, OptionalPassesOff) {
  RunOptions options;
  options.all_optional_off = true;
  std::vector<std::string> ran;
  options.dump = [&](std::string_view pass, const graph::Graph&) { ran.emplace_back(pass); };
  const graph::Graph result = transform(testing::parse(kMlp), context(), options);
  EXPECT_EQ(ran, (std::vector<std::string>{"import", "align-rows", "mixed-precision", "check-indices", "partition",
                                           "keep-states"}));
  EXPECT_EQ(result.nodes.size(), 3u);
  testing::expect_same_function(testing::parse(kMlp), result, 0);
}

TEST(Pipeline, DisablesStopsAndTimes) {
  RunOptions options;
  options.disabled = {"fuse"};
  std::vector<std::string> timed;
  options.time = [&](std::string_view pass, int64_t ns) {
    EXPECT_GE(ns, 0);
    timed.emplace_back(pass);
  };
  EXPECT_EQ(transform(testing::parse(kMlp), context(), options).nodes.size(), 3u);
  EXPECT_EQ(timed.size(), pipeline().size() - 1);
  options.stop_after = "dead-code";
  for (const graph::Node& node : transform(testing::parse(kMlp), context(), options).nodes)
    EXPECT_FALSE(node.is_group());
  // A pass that is off still stops the pipeline there.
  options.stop_after = "fuse";
  for (const graph::Node& node : transform(testing::parse(kMlp), context(), options).nodes)
    EXPECT_FALSE(node.is_group());
}

TEST(Pipeline, RefusesUnknownAndRequiredPasses) {
  RunOptions options;
  options.disabled = {"partition"};
  EXPECT_THROW(transform(testing::parse(kMlp), context(), options), UserError);
  options.disabled = {"nonsense"};
  EXPECT_THROW(transform(testing::parse(kMlp), context(), options), UserError);
  options.disabled = {};
  options.stop_after = "nonsense";
  EXPECT_THROW(transform(testing::parse(kMlp), context(), options), UserError);
  EXPECT_THROW(find_pass("nonsense"), UserError);
  EXPECT_EQ(find_pass("fuse").name, "fuse");
}

TEST(Pipeline, BrokenInputIsNamed) {
  graph::Graph broken = testing::parse(kMlp);
  std::swap(broken.nodes[0], broken.nodes[1]);
  try {
    transform(broken, context(), {});
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("after graph pass 'import'"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tw::transform
