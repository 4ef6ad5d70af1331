// Banks of shared memory: conflicts counted by hand, and the padding that has the fewest.
#include "cost/banks.h"

#include <gtest/gtest.h>

namespace tw::cost {
namespace {

TEST(Banks, ConflictsAreWordsOfOneBank) {
  // Eight lines of 128 bytes begin in the same bank; four bytes more and each begins in the next one, in the midst of
  // the four words before it.
  const BankAccess lines{.line_bytes = 128, .lines = 8, .bytes = 16};
  EXPECT_EQ(conflict_degree(lines, 0), 8);
  EXPECT_EQ(conflict_degree(lines, 4), 4);
  EXPECT_EQ(conflict_degree(lines, 16), 1);
  EXPECT_EQ(conflict_degree({.line_bytes = 64, .lines = 8, .bytes = 16}, 0), 4);
  EXPECT_EQ(conflict_degree({.line_bytes = 4, .lines = 32}, 0), 1);
}

TEST(Banks, PaddingIsTheSmallestThatKeepsVectorsAndConflictsLeast) {
  EXPECT_EQ(bank_padding({.line_bytes = 128, .lines = 8, .bytes = 16}, 16), 16);
  EXPECT_EQ(bank_padding({.line_bytes = 144, .lines = 8, .bytes = 16}, 16), 0) << "an odd number of vectors already";
  EXPECT_EQ(bank_padding({.line_bytes = 80, .lines = 8, .bytes = 16}, 4), 0);
  EXPECT_EQ(bank_padding({.line_bytes = 128, .lines = 2, .bytes = 64}, 16), 64) << "of tf32: half of all banks a line";
  EXPECT_EQ(bank_padding({.line_bytes = 64, .lines = 2, .bytes = 64}, 16), 0);
  EXPECT_EQ(bank_padding({.line_bytes = 128, .lines = 32, .bytes = 4}, 4), 4) << "a column of a square tile";
  // Two words of eight lines are half of the banks, whatever the padding: 4 bytes reach that.
  EXPECT_EQ(bank_padding({.line_bytes = 128, .lines = 16, .bytes = 8}, 8), 8);
}

}  // namespace
}  // namespace tw::cost
