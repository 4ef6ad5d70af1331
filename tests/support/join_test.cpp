#include "support/join.h"

#include <gtest/gtest.h>

namespace tw::test {
namespace {

TEST(Join, SequencesBeginWhereTheyAreTold) {
  EXPECT_EQ(sequence(3), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(sequence(size_t{2}, 5), (std::vector<int64_t>{5, 6}));
  EXPECT_EQ(sequence<int>(1), std::vector<int>{0});
  EXPECT_TRUE(sequence(0).empty());
}

TEST(Join, ListsAreMadeByIndexAndFiltered) {
  EXPECT_EQ(by_index(3, [](int i) { return i * i; }), (std::vector<int>{0, 1, 4}));
  const std::vector<int64_t> list = {4, 1, 6};
  EXPECT_EQ(filtered(list, [](int64_t x) { return x % 2 == 0; }), (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(joined(list, sequence(1)), (std::vector<int64_t>{4, 1, 6, 0}));
}

}  // namespace
}  // namespace tw::test
