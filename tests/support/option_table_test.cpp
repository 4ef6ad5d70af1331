// Options as rows: values from text and back, what is refused and how it is said, and which name was probably meant.
#include "support/option_table.h"

#include <gtest/gtest.h>

#include <set>

#include "support/error.h"

namespace tw {
namespace {

enum class Color : uint8_t { kRed, kBlue };

struct Inner {
  double seconds = 0;
  size_t count = 3;
};

struct Sample {
  bool quiet = false;
  int verbose = 0;
  int threads = 0;
  uint64_t seed = 0;
  int64_t bytes = 0;
  double ratio = 0.5;
  std::string name = "cpu";
  std::string word = "a";
  std::vector<std::string> list;
  Color color = Color::kRed;
  Inner inner;
};

constexpr Option<Sample> kRows[] = {
    option<&Sample::quiet>({.name = "quiet"}),
    option<&Sample::verbose>({.name = "verbose", .letter = 'v', .kind = OptionKind::kCount}),
    option<&Sample::threads>({.name = "threads", .min = 0, .unset = "all CPUs", .verbs = "run cache/prune db"}),
    option<&Sample::seed>({.name = "seed"}),
    option<&Sample::bytes>({.name = "bytes", .kind = OptionKind::kBytes}),
    option<&Sample::ratio>({.name = "ratio", .min = 0, .max = 1}),
    option<&Sample::name>({.name = "name", .kind = OptionKind::kFile}),
    option<&Sample::word>({.name = "word", .kind = OptionKind::kChoice, .choices = "a|b"}),
    option<&Sample::list>({.name = "list"}),
    option<&Sample::color>({.name = "color", .choices = "red|blue"}),
    option<&Sample::inner, &Inner::seconds>({.name = "limit", .kind = OptionKind::kDuration, .unset = "no limit"}),
    option<&Sample::inner, &Inner::count>({.name = "count", .max = 10}),
};

const Option<Sample>& row(std::string_view name) { return *find_option<Sample>(kRows, name); }

void set(Sample& sample, std::string_view name, std::string_view text) {
  const std::string spelled = "--" + std::string(name);
  row(name).set_in(sample, {text, spelled});
}

std::string refusal(std::string_view name, std::string_view text) {
  Sample sample;
  try {
    set(sample, name, text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(OptionTable, KindsFollowFromFields) {
  EXPECT_EQ(row("quiet").kind, OptionKind::kFlag);
  EXPECT_EQ(row("verbose").kind, OptionKind::kCount);
  EXPECT_EQ(row("threads").kind, OptionKind::kInteger);
  EXPECT_EQ(row("ratio").kind, OptionKind::kNumber);
  EXPECT_EQ(row("list").kind, OptionKind::kText);
  EXPECT_TRUE(row("list").is_repeatable);
  EXPECT_FALSE(row("name").is_repeatable);
  EXPECT_EQ(row("color").kind, OptionKind::kChoice);
  EXPECT_EQ(find_option<Sample>(kRows, "colour"), nullptr);
}

TEST(OptionTable, TextsBecomeValues) {
  Sample s;
  set(s, "quiet", "true");
  for (const char* text : {"true", "2", "true"}) set(s, "verbose", text);
  set(s, "threads", "8");
  set(s, "seed", "18446744073709551615");
  set(s, "bytes", "1.5K");
  set(s, "ratio", "0.25");
  set(s, "name", "a b");
  set(s, "word", "b");
  for (const char* text : {"x", "y \"z\""}) set(s, "list", text);
  set(s, "color", "blue");
  set(s, "limit", "500ms");
  set(s, "count", "10");
  EXPECT_TRUE(s.quiet);
  EXPECT_EQ(s.verbose, 4);
  EXPECT_EQ(s.threads, 8);
  EXPECT_EQ(s.seed, UINT64_MAX);
  EXPECT_EQ(s.bytes, 1536);
  EXPECT_EQ(s.ratio, 0.25);
  EXPECT_EQ(s.name, "a b");
  EXPECT_EQ(s.word, "b");
  EXPECT_EQ(s.list, (std::vector<std::string>{"x", "y \"z\""}));
  EXPECT_EQ(s.color, Color::kBlue);
  EXPECT_EQ(s.inner.seconds, 0.5);
  EXPECT_EQ(s.inner.count, 10u);
}

TEST(OptionTable, PrintedValuesAreReadAgain) {
  for (const auto& [name, text] : std::vector<std::pair<std::string_view, std::string>>{{"quiet", "true"},
                                                                                        {"threads", "8"},
                                                                                        {"bytes", "2G"},
                                                                                        {"ratio", "1e-3"},
                                                                                        {"name", "a b"},
                                                                                        {"word", "b"},
                                                                                        {"color", "blue"},
                                                                                        {"limit", "2m"}}) {
    Sample first, second;
    set(first, name, text);
    set(second, name, row(name).print_of(first));
    EXPECT_EQ(row(name).print_of(first), row(name).print_of(second)) << name;
    EXPECT_NE(row(name).print_of(first), row(name).print_of(Sample())) << name;
  }
}

TEST(OptionTable, ListsOfDifferentValuesPrintDifferently) {
  const auto printed = [](const std::vector<std::string>& list) {
    Sample s;
    s.list = list;
    return row("list").print_of(s);
  };
  const std::set<std::string> texts = {printed({}),       printed({""}),        printed({"a", "b"}),
                                       printed({"a b"}),  printed({"a\" \"b"}), printed({"a\\", "b"}),
                                       printed({"a\nb"}), printed({"a\\nb"}),   printed({"b", "a"})};
  EXPECT_EQ(texts.size(), 9u);
}

TEST(OptionTable, RefusalsNameTheOptionAndWhatIsExpected) {
  EXPECT_EQ(refusal("threads", "-1"), "--threads -1: expected 0 (all CPUs) or more");
  EXPECT_EQ(refusal("threads", "two"), "--threads 'two': expected a whole number");
  EXPECT_EQ(refusal("threads", "2.5"), "--threads '2.5': expected a whole number");
  EXPECT_EQ(refusal("threads", ""), "--threads '': expected a whole number");
  EXPECT_EQ(refusal("seed", "-1"), "--seed '-1': expected a whole number");
  EXPECT_EQ(refusal("ratio", "2"), "--ratio 2: expected 0 to 1");
  EXPECT_EQ(refusal("count", "11"), "--count 11: expected at most 10");
  EXPECT_EQ(refusal("ratio", "nan"), "--ratio 'nan': expected a number");
  EXPECT_EQ(refusal("color", "green"), "--color 'green': expected red or blue");
  EXPECT_EQ(refusal("word", "c"), "--word 'c': expected a or b");
  EXPECT_EQ(refusal("quiet", "maybe"), "--quiet 'maybe': expected true or false");
  for (const char* text : {"soon", "-3s", "0", "10 parsecs", "infs"})
    EXPECT_EQ(refusal("limit", text), fmt::format("--limit '{}': expected a time such as 60s, 2m or 500ms", text));
  for (const char* text : {"", "-1", "many", "1T", "1e30"})
    EXPECT_EQ(refusal("bytes", text), fmt::format("--bytes '{}': expected a size such as 500M or 2G", text));
}

TEST(OptionTable, BindingsHaveTwoParts) {
  EXPECT_EQ(parse_binding({"a=b=c", "--dim"}), (std::pair<std::string, std::string>{"a", "b=c"}));
  for (const char* text : {"", "a", "=b"}) EXPECT_THROW(parse_binding({text, "--dim"}), UsageError);
  EXPECT_EQ(split_list("a,,b,"), (std::vector<std::string>{"a", "", "b", ""}));
}

TEST(OptionTable, VerbsAreNamedWholly) {
  EXPECT_TRUE(is_for(row("threads"), "run"));
  EXPECT_TRUE(is_for(row("threads"), "cache/prune"));
  EXPECT_TRUE(is_for(row("threads"), "db/status"));
  for (const char* verb : {"cache", "cache/status", "runs", "ru", ""})
    EXPECT_FALSE(is_for(row("threads"), verb)) << verb;
}

TEST(OptionTable, WhatHoldsWithoutAnOption) {
  const auto without = [](std::string_view name) { return default_text(row(name), row(name).print_of(Sample())); };
  EXPECT_EQ(without("quiet"), "");
  EXPECT_EQ(without("threads"), "all CPUs");
  EXPECT_EQ(without("name"), "cpu");
  EXPECT_EQ(without("ratio"), "0.5");
  EXPECT_EQ(value_name(row("color")), "red|blue");
  EXPECT_EQ(value_name(row("quiet")), "");
  EXPECT_EQ(kind_name(row("limit")), "duration");
}

}  // namespace
}  // namespace tw
