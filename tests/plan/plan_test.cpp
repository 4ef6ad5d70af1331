// Plans as text: everything comes back, and what is no plan is refused with the line.
#include "plan/plan.h"

#include <gtest/gtest.h>

#include "support/error.h"

namespace tw::plan {
namespace {

Plan sample() {
  EntryPlan entry;
  entry.name = "x:1x3 y:\\2";
  entry.graph_hash = "0123abcd";
  entry.target = "cpu:x86-64-v4";
  entry.machine = R"({"units":8,"figures":{"from":"measured on \"A\\B\""}})";
  entry.passes = {{"pad-channels", "off", 1.25, 2, true}, {"fold-strides", "always", 3, 1, false}};
  entry.layouts.values = {{"plain", {}}, {"a \"b\"\\\n c", channels_last(4)}, {"", Layout().split(0, {2, 3})}};
  entry.layouts.reads = {{{"reader of it", 1}, {}}, {{"reader of it", 2}, channels_last(4)}};
  entry.between.values = {{"a", {}}, {"b", channels_last(4)}};
  entry.between.reads = {{{"reader of it", 0}, channels_last(4)}};
  entry.layout_times = {{"Conv \"1\"+\nRelu", 12.5, 0, {12.5, 1e-3}}, {"copy", 0, 2, {}}};
  GroupPlan conv{"Conv \"1\"+\nRelu", "contraction"};
  conv.content = "feedbeef00000000";
  conv.layouts = {{"x1", Layout().split(0, {2, 16}).reorder({0, 2, 1})}, {"x2", {}}};
  conv.schedule.split("y", "i0", {4}).compute_at("y", "z", "i0.0", loop::Scope::kRegister).parallel("z", {"i0.0"});
  conv.microseconds = 12.5;
  conv.predicted_us = 1e-3;
  conv.trace = {"first line", "  second\nwith a break"};
  conv.other_candidates = {{"cutlass", "nvcc says:\n  error \\ here\n"}, {"generic", "about 3.1 us measured"}};
  conv.other_candidates.push_back({"contraction", "", 13.25, 9.5, true, 2, "y.i0 tiled 8 (chosen: 4), \"quoted\"\\"});
  conv.other_candidates.push_back({"contraction", "wrong: y[3] is\n 4", 0, 9.5, false, 0, ""});
  entry.groups = {conv, {"reshape", std::string(kViewFamily)}};
  EntryPlan other = entry;
  other.name = "other";
  EntryPlan third = entry;
  third.target = "cpu:x86-64-v3";
  third.machine = "";
  return {{entry, other, third}};
}

TEST(Plan, TextHoldsAllOfIt) {
  const Plan plan = sample();
  const std::string text = to_string(plan);
  const Plan again = parse_plan(text);
  EXPECT_EQ(again, plan) << text;
  EXPECT_EQ(to_string(again), text);
  EXPECT_EQ(plan.targets(), "cpu:x86-64-v4, cpu:x86-64-v3");
  EXPECT_EQ(parse_plan(to_string(Plan())), Plan());
}

TEST(Plan, LayoutsOfAllGroupsTogether) {
  const LayoutTotals all = totals_of({{"a", 5, 6, {5, 6, 4}}, {"view", 0, 2, {0, 2, 3}}, {"copy", 0, 1, {}}});
  EXPECT_EQ(all.usual_us, 5);
  EXPECT_EQ(all.chosen_us, 9);
  EXPECT_EQ(all.best_us, 4);
  EXPECT_EQ(all.groups, 2);
  EXPECT_EQ(all.layouts, 6);
}

// The message about `text` behind the first lines of a plan.
std::string refusal(const std::string& text) {
  try {
    parse_plan("tilewright plan 2\ntarget cpu\nentry main\n" + text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "taken";
}

TEST(Plan, WhatIsNoneIsRefusedWithItsLine) {
  const std::string group = "group \"g\" contraction 12\n";
  const struct {
    std::string text, line, why;
  } cases[] = {
      {"frob\n", "plan line 4", "unknown line"},
      {"\n", "plan line 4", "unknown line"},
      {"graphs 1\n", "plan line 4", "unknown line"},
      {"  do inline y\n", "plan line 4", "expected 'group"},
      {"group g contraction\n", "plan line 4", "a name in quotes"},
      {"group \"g contraction\n", "plan line 4", "a name in quotes"},
      {"group \"g\\\" contraction\n", "plan line 4", "a name in quotes"},
      {"group \"g\"contraction\n", "plan line 4", "a space"},
      {"group \"g\"\n", "plan line 4", "a family"},
      {"group \"g\" rows 12 13\n", "plan line 4", "too much"},
      {"between \"b\"\nbetween \"b\"\n", "plan line 5", "twice"},
      {"copied \"b\" 1\ncopied \"b\" 1\n", "plan line 5", "twice"},
      {"layouts \"g\" 1\n", "plan line 4", "a number"},
      {group + "  frob 1\n", "plan line 5", "unknown line"},
      {group + " time 1\n", "plan line 5", "unknown line"},
      {group + "  time fast\n", "plan line 5", "a number"},
      {group + "  time 1.5us\n", "plan line 5", "a number"},
      {group + "  predicted 1 2\n", "plan line 5", "too much"},
      {group + "  do frobnicate y\n", "plan line 5", "unknown primitive 'frobnicate'"},
      {group + "  do inline y\n  do split\n", "plan line 6", "names no stage"},
      {group + "  tried rows 1\n", "plan line 5", "a number"},
      {group + "  tried rows 1 2 fast 0 \"\" \n", "plan line 5", "rough or whole"},
      {group + "  tried rows 1 2 rough 0 same\n", "plan line 5", "a name in quotes"},
      {group + "  layout x1 turn(1)\n", "plan line 5", "turn"},
      {group + "  layout\n", "plan line 5", "a tensor"},
      {"pass fuse\n", "plan line 4", "expected VARIANT"},
      {"pass fuse off 1\n", "plan line 4", "a number"},
      {"pass fuse off 1 2 taken\n", "plan line 4", "too much"},
      {"value x\n", "plan line 4", "a name in quotes"},
      {"value \"x\" turn(1)\n", "plan line 4", "turn"},
      {"value \"x\"\nvalue \"x\" reorder(1, 0)\n", "plan line 5", "twice"},
      {"read \"x\"\n", "plan line 4", "a number"},
      {"read \"x\" 1 reorder(1, 0)\nread \"x\" 1\n", "plan line 5", "twice"},
  };
  for (const auto& c : cases) {
    const std::string message = refusal(c.text);
    EXPECT_TRUE(message.starts_with(c.line + ": ")) << c.text << message;
    EXPECT_NE(message.find(c.why), std::string::npos) << c.text << message;
  }
  EXPECT_THROW(parse_plan(""), UserError);
  EXPECT_THROW(parse_plan("tilewright plan 2\ngraph 1\n"), UserError);
  EXPECT_THROW(parse_plan("tilewright plan 2\ngroup \"g\" rows\n"), UserError);
}

TEST(Plan, OnesOfTheFirstVersionAreRefusedWithARemedy) {
  try {
    parse_plan("tilewright plan 1\ntarget cpu\nentry main\ngraph 0\n");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("have a new one written"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tw::plan
