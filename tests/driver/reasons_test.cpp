// Reasons in plans: their text and back, and that a compilation has one for each edge and each stored value.
#include "plan/reasons.h"

#include <gtest/gtest.h>

#include "driver/compile.h"
#include "graph/parser.h"
#include "plan/plan.h"
#include "support/error.h"

namespace tw::driver {
namespace {

TEST(Reasons, TextGivesThemBack) {
  plan::Plan plan;
  plan.entries.push_back({"main", "hash", {}, "cpu:x86-64-v3"});
  plan::Reasons& r = plan.entries[0].reasons;
  r.edges.push_back({"a \"quoted\" value",
                     "from",
                     "to",
                     "from+group",
                     "to group",
                     false,
                     {"cycle", "one: waits = for the other", {{"value_bytes", 1.5e9}, {"next_best_ns", 0.125}}}});
  r.edges.push_back({"b", "c", "d", "g", "g", true, {"map", "read at one point", {}}});
  r.values.push_back({"b", {"least-time", "row-major", {{"next_best_ns", 1e12}}}});
  const std::string text = plan::to_string(plan);
  EXPECT_EQ(plan::parse_plan(text), plan) << text;
  EXPECT_EQ(plan::to_string(plan::parse_plan(text)), text);
}

TEST(Reasons, BrokenLinesAreRefused) {
  const std::string head = "tilewright plan 1\ntarget cpu:x86-64\nentry main\ngraph h\n";
  for (const char* line : {"edge \"v\"", "edge \"v\" \"a\" \"b\" \"g\" \"h\" joined \"rule\" : \"text\"",
                           "why \"v\" \"rule\" n=\"x\" : \"text\"", "why \"v\" \"rule\" : \"text\" more"})
    EXPECT_THROW(plan::parse_plan(head + line + "\n"), UserError) << line;
}

TEST(Reasons, ACompilationHasOneForEveryEdgeAndValue) {
  const graph::Graph graph = graph::parse_graph(R"(graph g {
  input x : f32[8, 16]
  input w : f32[16, 16]
  m : f32[8, 16] = matmul(x, w) as m
  y : f32[8, 16] = relu(m) as y
  s : f32[8, 16] = softmax(y) {axis = 1} as s
  v : f32[16, 8] = reshape(s) {shape = [16, 8]} as v
  output v, m
})",
                                                {});
  CompileOptions options;
  options.target = "cpu:x86-64-v3";
  const auto reasons_with = [&](std::vector<std::string> disabled) {
    options.disabled_passes = std::move(disabled);
    return compile_graph(graph, options).plan.entries.at(0).reasons;
  };
  const plan::Reasons r = reasons_with({});
  EXPECT_EQ(r.edges.size(), 3u);
  EXPECT_EQ(r.values.size(), 5u);  // no word about what stays inside
  for (const plan::EdgeReason& e : r.edges) {
    EXPECT_FALSE(e.why.rule.empty() || e.why.rule == "off" || e.why.text.empty()) << e.value << " to " << e.to;
    EXPECT_EQ(e.is_fused, e.value == "y") << e.value << ": " << e.why.text;
  }
  for (const plan::EdgeReason& e : reasons_with({"fuse", "fuse-outputs"}).edges) EXPECT_EQ(e.why.rule, "off");
}

}  // namespace
}  // namespace tw::driver
