// Numbers, sizes, times and counts as people read them; which name was probably meant.
#include "support/text.h"

#include <gtest/gtest.h>

#include <limits>

namespace tw {
namespace {

TEST(Text, SizesHaveThreeDigits) {
  EXPECT_EQ(size_text(0), "0 bytes");
  EXPECT_EQ(size_text(1), "1 byte");
  EXPECT_EQ(size_text(999), "999 bytes");
  EXPECT_EQ(size_text(1000), "1 kB");
  EXPECT_EQ(size_text(1536), "1.54 kB");
  EXPECT_EQ(size_text(32 * 1024), "32.8 kB");
  EXPECT_EQ(size_text(999'600), "1 MB");
  EXPECT_EQ(size_text(133'101'440), "133 MB");
  EXPECT_EQ(size_text(2.4e9), "2.4 GB");
  EXPECT_EQ(size_text(5e15), "5000 TB");
}

TEST(Text, TimesHaveAUnitOfTheirSize) {
  EXPECT_EQ(time_text(0), "0 us");
  EXPECT_EQ(time_text(12.34e-6), "12.3 us");
  EXPECT_EQ(time_text(0.9996e-3), "1 ms");
  EXPECT_EQ(time_text(0.02), "20 ms");
  EXPECT_EQ(time_text(1.5), "1.5 s");
  EXPECT_EQ(time_text(119), "119 s");
  EXPECT_EQ(time_text(125), "2 min 5 s");
  EXPECT_EQ(time_text(3780), "1 h 3 min");
}

TEST(Text, CountsAgreeWithTheirNouns) {
  EXPECT_EQ(count_text(1, "group"), "1 group");
  EXPECT_EQ(count_text(0, "group"), "0 groups");
  EXPECT_EQ(count_text(2, "entry"), "2 entries");
  EXPECT_EQ(count_text(2, "day"), "2 days");
  EXPECT_EQ(count_text(2, "class"), "2 classes");
  EXPECT_EQ(count_text(2, "match"), "2 matches");
  EXPECT_EQ(count_text(1, "entry"), "1 entry");
}

TEST(Text, NumbersOfReportsHaveSixDigits) {
  EXPECT_EQ(rounded(4.9997761999999994), 4.99978);
  EXPECT_EQ(rounded(-1234567.0), -1234570.0);
  EXPECT_EQ(rounded(0.1 + 0.2), 0.3);
  EXPECT_EQ(rounded(0), 0);
  EXPECT_EQ(rounded(std::numeric_limits<double>::infinity()), std::numeric_limits<double>::infinity());
}

TEST(Text, LongNamesLoseTheirMiddle) {
  EXPECT_EQ(shortened("conv1", 5), "conv1");
  EXPECT_EQ(shortened("abcdefghij", 6), "ab..ij");
  EXPECT_EQ(shortened("abcdefghij", 7), "ab..hij");
  EXPECT_EQ(shortened("abcdefghij", 2), "ab");
  EXPECT_EQ(shortened("abcdefghij", 0), "");
  EXPECT_EQ(columns_of("gr\u00fc\u00df"), 4u);
  EXPECT_EQ(shortened("gr\u00fc\u00dfgr\u00fc\u00df", 6), "gr..\u00fc\u00df");
}

TEST(Text, ListsReadAsSentences) {
  EXPECT_EQ(list_text(std::vector<std::string>{}), "");
  EXPECT_EQ(list_text(std::vector<std::string>{"a"}), "a");
  EXPECT_EQ(list_text(std::vector<std::string>{"a", "b"}, "or"), "a or b");
  EXPECT_EQ(list_text(std::vector<std::string>{"a", "b", "c"}), "a, b and c");
}

TEST(Text, TheNearestNameIsMeant) {
  const std::vector<std::string_view> names = {"target", "threads", "plan", "dim", "disable-pass"};
  EXPECT_EQ(suggestion("taget", names, "--"), "; did you mean '--target'?");
  EXPECT_EQ(suggestion("traget", names), "; did you mean 'target'?");
  EXPECT_EQ(suggestion("dims", names), "; did you mean 'dim'?");
  EXPECT_EQ(suggestion("diable-passes", names), "; did you mean 'disable-pass'?");
  EXPECT_EQ(suggestion("sm_90", std::vector<std::string>{"sm_80", "sm_90a"}), "; did you mean 'sm_90a'?");
  for (const char* word : {"frob", "", "x"}) EXPECT_EQ(suggestion(word, names), "") << word;
  EXPECT_EQ(suggestion("target", std::vector<std::string>()), "");
}

TEST(Text, WithoutANearNameAllAreNamed) {
  EXPECT_EQ(suggestion_or_all("inptu", {"input", "mask"}), "; did you mean 'input'?");
  EXPECT_EQ(suggestion_or_all("frob", {"input", "mask"}), "; there are input and mask");
  EXPECT_EQ(suggestion_or_all("frob", {"input"}), "; there is only input");
  EXPECT_EQ(suggestion_or_all("frob", {}), "; there is none");
}

}  // namespace
}  // namespace tw
