// States that are changed in their place, and those that must be copied: a group reads elements that it has changed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/transform/graph_tools.h"

namespace tw::transform {
namespace {

// Whether the state `past`, whose next value `y` takes rows of `source`, is a copy of what was computed beside it.
bool copied(const std::string& source) {
  TransformContext context = testing::context();
  context.target.kind = DeviceKind::kCuda;
  context.states = {{"past", "y"}};
  graph::Graph g = testing::parse(fmt::format(R"(graph g {{
  input past : f32[1, 10, 8]
  input other : f32[1, 10, 8]
  input p : i64[1]
  v : f32[10, 8] = reshape({}) {{shape = [10, 8]}}
  s : f32[6, 8] = slice(v) {{starts = [0, 0], steps = [1, 1], extents = [6, 8]}}
  r : f32[1, 6, 8] = reshape(s) {{shape = [1, 6, 8]}}
  y : f32[1, 10, 8] = update_slice(past, r, p) {{axis = 1}}
  output y
}})",
                                              source));
  for (const char* pass : {"fuse", "partition", "keep-states"}) g = find_pass(pass).run(g, context);
  const graph::Graph& last = *g.nodes.back().body;
  EXPECT_EQ(last.nodes.back().op == "identity", last.nodes.size() == 1) << graph::to_string(g);
  return last.nodes.back().op == "identity";
}

TEST(KeepStates, RowsThatAGroupReadsWhileItChangesThemAreCopied) {
  EXPECT_FALSE(copied("other"));
  EXPECT_TRUE(copied("past")) << "a view of the state";
}

}  // namespace
}  // namespace tw::transform
