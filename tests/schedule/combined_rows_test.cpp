// Rows of a product that one reduction combines: which values may leave the group beside the result.
#include <gtest/gtest.h>

#include "schedule/match/chain.h"

namespace tw::schedule {
namespace {

// Column sums of 2 (x w + 1).
te::Program sums(const std::string& outputs) {
  return te::parse_program(R"(te sums
input x: f32[32, 16]
input w: f32[16, 64]
product: f32[32, 64] = sum(r0 in 16) over (i0, i1) of (x[i0, r0] * w[r0, i1])
more: f32[32, 64] (i0, i1) = (product[i0, i1] + 1:f32)
twice: f32[32, 64] (i0, i1) = (more[i0, i1] * 2:f32)
total: f32[64] = sum(r0 in 32) over (i0) of twice[r0, i0]
)" + outputs);
}

std::string why_declined(const std::string& outputs) {
  const Result<ReducedProduct> found = match_combined_rows(sums(outputs));
  return found.ok() ? why_near_declined(*found) : "no match: " + found.reason();
}

TEST(CombinedRows, OnCpusTheRowsThemselvesMayLeave) {
  EXPECT_EQ(why_declined("output total\n"), "");
  EXPECT_EQ(why_declined("output twice\noutput total\n"), "");
}

TEST(CombinedRows, WhatIsComputedOfRowsThatLeaveIsPartOfTheReduction) {
  const te::Program converted = te::parse_program(R"(te sums
input x: bf16[32, 16]
input w: bf16[16, 64]
product: f32[32, 64] = sum(r0 in 16) over (i0, i1) of (cast<f32>(x[i0, r0]) * cast<f32>(w[r0, i1]))
rows: bf16[32, 64] (i0, i1) = cast<bf16>(product[i0, i1])
again: f32[32, 64] (i0, i1) = cast<f32>(rows[i0, i1])
total: f32[64] = sum(r0 in 32) over (i0) of again[r0, i0]
output rows
output total
)");
  const Result<ReducedProduct> found = match_combined_rows(converted);
  ASSERT_TRUE(found.ok()) << found.reason();
  EXPECT_EQ(found->segment.output(), "rows");
  EXPECT_EQ(found->reduction, "total");
}

TEST(CombinedRows, WhatTheyAreComputedOfMayNot) {
  EXPECT_EQ(why_declined("output more\noutput twice\noutput total\n"),
            "no match: more leaves the group, and rows are combined of twice");
}

}  // namespace
}  // namespace tw::schedule
