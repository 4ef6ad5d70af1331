// Pages of reports from data that no compiler made: sizes, names of others, missing data, pictures' parts.
#include "artefact/report/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "artefact/report/layered.h"
#include "artefact/report/rank.h"
#include "artefact/report/text.h"
#include "artefact/report/trace.h"

namespace tw::artefact::report {
namespace {

using nlohmann::json;

constexpr std::string_view kHostile = "</script><script>alert(1)</script><!-- \" ' & \x01 \xff";

GroupReport group(const std::string& name, double us) {
  GroupReport g;
  g.plan.name = name;
  g.plan.family = "contraction";
  g.plan.microseconds = us;
  g.plan.predicted_us = us * 0.9;
  g.bound_bytes = 4096;
  g.moved_bytes = 8192;
  g.flop = 1e6;
  g.mue = 12;
  g.peak_share = 70;
  g.operators = {{name, "conv"}, {name, "relu"}};
  g.plan.trace = {"registers: " + name};
  for (int c = 0; c < 10; ++c)
    g.plan.other_candidates.push_back(
        {"contraction", "", us * (1.1 + c), us, c > 5, 0, name + " along i1 in tiles of 4"});
  return g;
}

// A chain of `count` groups.
Report chain(size_t count, const std::string& name) {
  Report r;
  r.model = name;
  r.producer = "tests";
  r.level = "x86-64-v4";
  r.entry = name;
  r.target.flop_per_ns = 100;
  r.target.levels = {{"L1", 1 << 15}, {"DRAM", 1 << 30}};
  for (MemoryLevel& l : r.target.levels) l.read_per_ns = 20;
  for (size_t g = 0; g < count; ++g) {
    r.explained.groups.push_back(group(fmt::format("{}{}", name, g), 1 + static_cast<double>(g % 97)));
    const auto at = static_cast<int>(g);
    r.explained.flows.push_back({at - 1,
                                 at,
                                 fmt::format("v{}", g),
                                 {DataType::f32(), {1, 64, 56, static_cast<int64_t>(g % 89) + 1}},
                                 channels_last(4)});
    r.explained.edges.push_back(
        {fmt::format("v{}", g), name, name, name, name, name, false, because("cycle", "{} and {}", name, g)});
    const double us = r.explained.groups.back().plan.microseconds;
    r.explained.layout_times.push_back({r.explained.groups.back().plan.name, us, us / 2, {us, us / 2, us * 7, 0}});
    r.memory.boxes.push_back(
        {fmt::format("v{}", g), at, std::min<int64_t>(at + 1, static_cast<int64_t>(count) - 1), 0, 1024});
  }
  r.memory.steps = static_cast<int64_t>(count);
  r.memory.arena_bytes = r.memory.needed_bytes = 2048;
  r.has_profile = true;
  VerifyReport v;
  for (size_t g = 0; g < count; ++g)
    v.groups.push_back({r.explained.groups[g].plan.name,
                        "contraction",
                        {{.tensor = name, .got = 1, .want = 1.5, .bound = 1, .elements = 8}}});
  r.verified = v;
  r.latency = Latency{1, 1.5, 1.25, 100, name};
  r.compared = Compared{name, r.explained, Latency{2, 2.5, 2.25, 100, name},
                        std::vector<OutputDifference>{{name, 8, 1, 0.5, 2}}};
  r.peer = Peer{name, Latency{3, 3.5, 3.25, 100, name}, name};
  r.passes = std::vector<driver::PassTime>{{"graph", name, 1000000}};
  return r;
}

size_t count_of(const std::string& text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

json data_of(const std::string& page) {
  constexpr std::string_view kOpen = "<script type=\"application/json\" id=\"report-data\">";
  const size_t begin = page.find(kOpen) + kOpen.size();
  return json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(Report, NamesOfOthersStayTexts) {
  const std::string page = to_html(chain(20, std::string(kHostile)));
  EXPECT_EQ(count_of(page, "<script"), 2u);
  EXPECT_EQ(count_of(page, "</script"), 2u);
  EXPECT_EQ(count_of(page, "<!--"), 0u);
  EXPECT_EQ(count_of(page, "\x01"), 0u);
  EXPECT_EQ(count_of(page, "\xff"), 0u);
  EXPECT_GT(count_of(page, "&lt;/script&gt;"), 20u);
  const json data = data_of(page);
  EXPECT_EQ(data["groups"].size(), 20u);
  EXPECT_NE(data["groups"][0]["name"].get<std::string>().find("</script><script>"), std::string::npos)
      << "the data has the name as it is";
}

TEST(Report, SizesStayWithinTheirLimits) {
  EXPECT_LT(to_html(chain(60, "Conv_12+Relu_11")).size(), 1500000u);
  for (const std::string& name : {std::string("layer"), std::string(5000, '<'), std::string(3000, '"') + "&"}) {
    const std::string page = to_html(chain(6000, name));
    EXPECT_LT(page.size(), 4000000u) << name.substr(0, 10);
    const json data = data_of(page);
    EXPECT_EQ(data["group_count"], 6000);
    EXPECT_GE(data["groups"].size(), 1000u);
  }
}

// Where a line of the time line ends is no whole number: whatever the times, each page ends.
TEST(Report, AnyTimesCanBeDrawn) {
  Report r = chain(3, "g");
  for (int i = 1; i <= 200; ++i) {
    for (size_t g = 0; g < 3; ++g) r.explained.groups[g].run_us = 0.1 * i / static_cast<double>(7 + 3 * g);
    const std::string page = to_html(r);
    ASSERT_LT(page.size(), 200000u) << i;
    ASSERT_EQ(page.find("nan"), std::string::npos) << i;
  }
}

TEST(Report, TheSchemaHasWhatPicturesAreMadeOf) {
  const json data = json::parse(to_json(chain(3, "g")));
  EXPECT_EQ(data["schema"], "tilewright.report/1");
  const json& slowest = data["groups"][0];
  EXPECT_EQ(slowest["id"], 2);
  EXPECT_EQ(slowest["measured_us"], 3);
  EXPECT_EQ(slowest["candidates"].size(), 10u);
  EXPECT_NEAR(slowest["candidates"][1]["ratio"].get<double>(), 2.1, 1e-3);
  EXPECT_EQ(slowest["candidates"][9]["rough"], true);
  EXPECT_EQ(data["memory"]["values"].size(), 3u);
  EXPECT_EQ(data["verified"]["groups"][0]["want"], 1.5);
  EXPECT_EQ(data["compared"]["outputs"][0]["largest"], 0.5);
  EXPECT_EQ(data["peer"]["latency"]["p10_ms"], 3);
  EXPECT_EQ(data["passes"][0]["us"], 1000);
}

TEST(Report, TimesOfLayoutsAreDrawnForEachGroup) {
  Report r = chain(5, "g");
  r.explained.layout_times.push_back({"copy", 0, 1, {}});
  r.explained.layout_times.push_back({"one layout", 1, 1, {1}});
  const std::string page = to_html(r);
  EXPECT_EQ(count_of(page, "class=\"violin\""), 5u);
  EXPECT_NE(page.find("take 16.0 us as predicted, 9.50 us as chosen"), std::string::npos)
      << page.substr(page.find("All groups together"), 200);
  EXPECT_EQ(data_of(page)["layout_times"][4]["us"].size(), 4u);
  r.explained.layout_times.clear();
  EXPECT_EQ(count_of(to_html(r), "class=\"violin\""), 0u);
}

TEST(Report, MissingDataSaysWhyInThePageAndInTheData) {
  Report empty;
  empty.latency = declined("nobody <ran> it");
  const std::string page = to_html(empty);
  EXPECT_NE(page.find("nobody &lt;ran&gt; it"), std::string::npos);
  EXPECT_EQ(data_of(page)["latency"]["missing"], "nobody <ran> it");
  EXPECT_GE(count_of(page, "class=\"missing\""), 8u);
}

TEST(Report, TheSummarySaysWhyTheSlowestGroupIsSlowAndWhatWasTried) {
  Report r = chain(1, "Conv");
  GroupReport& g = r.explained.groups.front();
  g.plan.other_candidates.resize(2);
  std::string page = to_html(r);
  EXPECT_NE(page.find("70.0 % of the arithmetic peak"), std::string::npos);
  EXPECT_NE(page.find("arithmetic limits it. 2 other candidates were measured beside it; the fastest of them took 1.10 "
                      "times as long."),
            std::string::npos);
  g.peak_share = 25;
  page = to_html(r);
  EXPECT_NE(page.find("neither bound explains its time. At the nearer bound it would take 0.25 us."),
            std::string::npos);
  g.plan.microseconds = 0, g.plan.predicted_us = 8;
  for (auto& c : g.plan.other_candidates) c.microseconds = 0, c.predicted_us = 9;
  r.explained.groups.push_back(group("Cast", 0));
  r.explained.groups.back().plan.family = "point";
  page = to_html(r);
  EXPECT_NE(page.find("8.00 us by prediction, 100 % of all. By its prediction it reaches 25.0 %"), std::string::npos);
  EXPECT_NE(page.find("Nothing was measured; 2 other candidates were predicted, the best of them at 9.00 us."),
            std::string::npos);
  EXPECT_NE(page.find("point: 1 group, time unknown"), std::string::npos);
  EXPECT_NE(page.find("1 group without a time: not run, not measured, and no model predicts it."), std::string::npos);
}

TEST(Report, TheGraphHasClassesFlopAndWords) {
  Report r = chain(1, "conv");
  r.explained.groups[0].operators = {{"c", "conv", dataflow::OperatorClass::kContraction, 137.4},
                                     {"s", "softmax", dataflow::OperatorClass::kNormalization, 2.05},
                                     {"t", "transpose"}};
  const std::string html = to_html(r);
  const std::string graph = html.substr(html.find("id=\"graph\""));
  for (const char* fact :
       {"class=\"tile f0\"", "class=\"tile f3\"", "class=\"tile f7\"", ">137<", ">2.05<", ", 3584 words"})
    EXPECT_NE(graph.find(fact), std::string::npos) << fact;
}

TEST(Report, ABusyMachineIsNamedBesideTheLatency) {
  Report r = chain(1, "Conv");
  EXPECT_EQ(to_html(r).find("other programs disturbed"), std::string::npos);
  Latency busy = *r.latency;
  busy.quiet_share = 0.25;
  r.latency = busy;
  EXPECT_NE(to_html(r).find("other programs disturbed 75 % of the runs"), std::string::npos);
}

TEST(ReportText, LabelsLeaveOutFoldersThatOperatorsShare) {
  EXPECT_EQ(label_of("/m/layer.1/dense/MatMul+/m/layer.1/Add+/m/layer.1/Add_1+.."),
            "/m/layer.1/dense/MatMul+Add+Add_1+..");
  EXPECT_EQ(label_of("/a/b+/c/b"), "/a/b+c/b");
  EXPECT_EQ(label_of("a/b/c+a/bc/d"), "a/b/c+bc/d");
  EXPECT_EQ(label_of("Conv_0+Relu_0"), "Conv_0+Relu_0");
  EXPECT_EQ(label_of("+"), "+");
  EXPECT_EQ(label_of("a+"), "a+");
  EXPECT_EQ(label_of(""), "");
}

TEST(ReportText, LongNamesLoseTheirMiddle) {
  EXPECT_EQ(shortened("short", 8), "short");
  EXPECT_EQ(shortened("0123456789", 8),
            "0123\xE2\x80\xA6"
            "789");
  EXPECT_EQ(shortened("\xD7\x90\xD7\x91\xD7\x92", 8), "\xD7\x90\xD7\x91\xD7\x92") << "characters count, not bytes";
  EXPECT_EQ(escaped("a\xC3"), "a\xEF\xBF\xBD") << "half a character";
  EXPECT_EQ(escaped("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD") << "a surrogate";
}

TEST(ReportText, NumbersHaveUnits) {
  EXPECT_EQ(time_text(12.345), "12.3 us");
  EXPECT_EQ(time_text(2534), "2.53 ms");
  EXPECT_EQ(time_text(1100), "1.10 ms");
  EXPECT_EQ(percent_text(12.345), "12.3 %");
  EXPECT_EQ(time_text(0), "unknown");
  EXPECT_EQ(size_text(133101440), "133 MB");
  EXPECT_EQ(size_text(12), "12 bytes");
  EXPECT_EQ(count_text(1, "group"), "1 group");
  EXPECT_EQ(count_text(2, "group"), "2 groups");
}

TEST(ReportRank, CorrelationOfRanks) {
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3, 4}, {10, 100, 1000, 1e9}), 1);
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3}, {3, 2, 1}), -1);
  EXPECT_NEAR(rank_correlation({1, 1, 2, 3}, {1, 2, 3, 4}), 0.9487, 1e-4) << "equal values share their rank";
  EXPECT_TRUE(std::isnan(rank_correlation({1, 2}, {1, 2})));
  EXPECT_TRUE(std::isnan(rank_correlation({1, 1, 1}, {1, 2, 3})));
}

TEST(ReportLayers, BoxesStandBelowWhatTheyReadAndNeverOnEachOther) {
  Placement p;
  for (int i = 0; i < 7; ++i) p.boxes.push_back({100, 40});
  p.edges = {{0, 1, {}}, {0, 2, {}}, {0, 3, {}}, {1, 4, {}}, {2, 4, {}}, {3, 6, {}}, {4, 5, {}}, {5, 6, {}}};
  const Placement placed = place_in_layers(p);
  for (const PlacedEdge& e : placed.edges) {
    EXPECT_GT(placed.boxes[static_cast<size_t>(e.to)].y, placed.boxes[static_cast<size_t>(e.from)].y + 40);
    EXPECT_EQ(e.points.size() % 2, 0u);
  }
  for (size_t a = 0; a < 7; ++a) {
    for (size_t b = 0; b < a; ++b) {
      const bool apart = std::fabs(placed.boxes[a].x - placed.boxes[b].x) >= 100 ||
                         std::fabs(placed.boxes[a].y - placed.boxes[b].y) >= 40;
      EXPECT_TRUE(apart) << a << " on " << b;
    }
    EXPECT_GE(placed.boxes[a].x, 0);
    EXPECT_LE(placed.boxes[a].x + 100, placed.width + 1e-6);
  }
}

TEST(ReportLayers, BlocksThatRepeatAreFound) {
  const std::vector<Repeat> found = find_repeats({9, 1, 2, 3, 1, 2, 3, 1, 2, 3, 7, 7, 7, 7, 8});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].begin, 1u);
  EXPECT_EQ(found[0].length, 3u);
  EXPECT_EQ(found[0].times, 3u);
  EXPECT_EQ(found[1].begin, 10u);
  EXPECT_EQ(found[1].length * found[1].times, 4u);
  EXPECT_TRUE(find_repeats({1, 2, 3, 1, 2}).empty());
}

TEST(ReportTrace, StepsFollowOneAnother) {
  const std::vector<StepTime> steps = {{"a\"b", 2.5}, {"c", 4}};
  const json trace = json::parse(to_trace(steps, "m", "stream"));
  std::vector<json> complete;
  for (const json& e : trace["traceEvents"]) {
    if (e["ph"] == "X") complete.push_back(e);
  }
  ASSERT_EQ(complete.size(), 2u);
  EXPECT_EQ(complete[0]["name"], "a\"b");
  EXPECT_EQ(complete[1]["ts"], 2.5);
  EXPECT_EQ(complete[1]["dur"], 4);
}

}  // namespace
}  // namespace tw::artefact::report
