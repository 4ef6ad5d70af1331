// What the verb analyze says of an analysis: shares of classes, unknown times, pictures of hostile names.
#include <gtest/gtest.h>

#include "tests/graph/sample.h"
#include "tilewright/analyze/analysis_text.h"

namespace tw::cli {
namespace {

using artefact::Bound;
using dataflow::OperatorClass;

// relu(x w + b) as one group of a contraction, beside one whose time nobody knows and one that is element-wise.
Analysis sample() {
  Analysis analysis{"mlp.onnx", dataflow::analyze(graph::test::mlp(4, 3, 2), graph::test::table())};
  artefact::AnalyzedGroups groups;
  groups.groups = {{"a", OperatorClass::kContraction, 3, 0, 56, 30, 1000, 40, 60, Bound::kCompute},
                   {"b", OperatorClass::kNormalization, 1, 3, 10, 0, 80, 0, 0, Bound::kUnknown},
                   {"c", OperatorClass::kElementwise, 2, 4, 8, 10, 500, 50, 1, Bound::kMemory}};
  groups.origin = artefact::TimeOrigin::kCompilation;
  groups.dram_per_ns = 12;
  analysis.groups = std::move(groups);
  analysis.level = "x86-64-v3";
  analysis.threads = 2;
  return analysis;
}

TEST(Analysis, SharesTimesOfClasses) {
  const nlohmann::ordered_json json = analysis_json(sample());
  const nlohmann::ordered_json& classes = json.at("classes");
  EXPECT_EQ(classes.at(0).at("time_us"), 30);
  EXPECT_EQ(classes.at(0).at("time_percent"), 75);
  EXPECT_EQ(classes.at(0).at("flop"), 48);
  EXPECT_TRUE(classes.at(1).at("time_us").is_null());
  EXPECT_EQ(classes.at(2).at("time_percent"), 25);
  EXPECT_EQ(json.at("times_from"), "compilation");
}

TEST(Analysis, SaysWhatBoundsAGroup) {
  const nlohmann::ordered_json json = analysis_json(sample());
  const nlohmann::ordered_json& groups = json.at("groups");
  EXPECT_EQ(groups.at(0).at("bound"), "compute");
  EXPECT_TRUE(groups.at(1).at("bound").is_null());
  EXPECT_TRUE(groups.at(1).at("mue_percent").is_null());
  EXPECT_EQ(groups.at(2).at("bound"), "memory");
}

TEST(Analysis, HasNoGroupsWhereNothingWasCompiled) {
  Analysis counted = sample();
  counted.groups.reset();
  const nlohmann::ordered_json json = analysis_json(counted);
  EXPECT_FALSE(json.contains("groups"));
  EXPECT_TRUE(json.at("classes").at(0).at("time_percent").is_null());
  EXPECT_EQ(json.at("operators").size(), 3u);
}

TEST(Analysis, HasThreeDigits) {
  EXPECT_EQ(number_text(0), "0");
  EXPECT_EQ(number_text(768), "768");
  EXPECT_EQ(number_text(2.5), "2.5");
  EXPECT_EQ(number_text(999.4), "999.4");
  EXPECT_EQ(number_text(24576), "24.6 k");
  EXPECT_EQ(number_text(999'600), "1.00 M");
  EXPECT_EQ(number_text(33'554'432), "33.6 M");
}

TEST(Analysis, QuotesNamesInPictures) {
  Analysis analysis = sample();
  analysis.flow.operators[0].name = "a\"; b\\";
  const std::string dot = analysis_dot(analysis);
  EXPECT_NE(dot.find(R"(label="a\"; b\\ (matmul)\n)"), std::string::npos) << dot;
  EXPECT_NE(dot.find(R"(o0 -> o1 [label="8"])"), std::string::npos) << dot;
  EXPECT_NE(dot.find(R"(o2 -> e)"), std::string::npos) << dot;
}

}  // namespace
}  // namespace tw::cli
