// Chains: contractions whose rows are computed block by block by the stages before them.
#include <gtest/gtest.h>

#include <set>

#include "te/rewrite.h"
#include "tests/construct/construct_check.h"
#include "tests/harness/te_programs.h"

namespace tw::construct {
namespace {

using testing::Attention;
using testing::attention;

TEST(Chain, AttentionAtOddShapes) {
  const Attention shapes[] = {{1, 2, 24, 32, 8, 16, true},
                              {2, 3, 13, 17, 5, 9, true},
                              {1, 1, 7, 40, 4, 8, false},
                              {2, 1, 20, 33, 16, 11, true},
                              {1, 3, 9, 16, 8, 24, false}};
  for (const Attention& a : shapes) {
    SCOPED_TRACE(fmt::format("{} x {} heads, {} queries, {} keys, depth {}, {} values", a.batch, a.heads, a.queries,
                             a.keys, a.depth, a.values));
    for (const char* target : {"cpu:x86-64-v3", "cpu:x86-64-v4"}) check({attention(a), {}}, target, "chain", 1e-4);
  }
}

// One kernel, whose scores no memory but that of a tile holds: rows that fill tiles and such that do not, elements in
// registers (multiples of 64 keys) and in shared memory, one head without a batch.
TEST(Chain, AttentionByThreadsIsOneKernel) {
  const Attention shapes[] = {{1, 2, 24, 64, 16, 16, true, DataType::f16()},
                              {2, 3, 13, 17, 5, 9, true, DataType::bf16()},
                              {1, 1, 40, 40, 8, 32, false, DataType::f16()},
                              {1, 2, 70, 36, 20, 24, true, DataType::f16()}};
  const targets::Target t = targets::find_target("cuda:sm_90a");
  for (const Attention& a : shapes) {
    SCOPED_TRACE(fmt::format("{} x {} heads, {} queries, {} keys, depth {}, {} values", a.batch, a.heads, a.queries,
                             a.keys, a.depth, a.values));
    check({attention(a), {}}, "cuda:sm_90a", "chain", a.type == DataType::f16() ? 1e-2 : 4e-2);
    for (const Construction& c : construct(t.families, {attention(a), {}}, t.info, nullptr)) {
      const te::Program stored = te::apply_layouts(attention(a), c.constant_layouts);
      EXPECT_EQ(schedule::apply(stored, c.schedule).kernels.size(), 1U) << c.trace.front();
    }
  }
}

// Keys come block by block: as many blocks as it takes, the last one with fewer keys, and rows that fill tiles or do
// not.
TEST(Chain, AttentionByThreadsReadsKeysInBlocks) {
  const Attention shapes[] = {{1, 2, 64, 256, 16, 16, true, DataType::f16()},
                              {2, 1, 130, 101, 24, 9, true, DataType::bf16()},
                              {1, 1, 96, 75, 8, 40, false, DataType::f16()},
                              {2, 2, 64, 160, 16, 16, true, DataType::f16()},
                              {1, 2, 192, 192, 16, 16, false, DataType::f16(), false, true}};
  const targets::Target t = targets::find_target("cuda:sm_90a");
  for (const Attention& a : shapes) {
    const GroupTask task{attention(a), {}};
    size_t streamed = 0;
    for (const Construction& c : construct(t.families, task, t.info, nullptr)) {
      if (c.trace.at(0).find("keys at a time") == std::string::npos) continue;
      SCOPED_TRACE(fmt::format("{} queries, {} keys: {}", a.queries, a.keys, c.trace[0]));
      check_candidate(task, t, c, a.type == DataType::f16() ? 1e-2 : 4e-2);
      EXPECT_EQ(schedule::apply(te::apply_layouts(task.program, c.constant_layouts), c.schedule).kernels.size(), 1U);
      ++streamed;
    }
    EXPECT_GT(streamed, 0U);
  }
}

// What training wants of each row: stored by one of the threads that share it, by tiles with rows to spare and without.
TEST(Chain, AttentionByThreadsLeavesWhatThereIsOnceARow) {
  constexpr size_t kMost = 2;  // the interpreter takes seconds for one
  std::vector<Attention> shapes = {{1, 2, 64, 256, 16, 16, true, DataType::f16()},
                                   {2, 1, 130, 101, 24, 9, true, DataType::bf16()},
                                   {1, 1, 96, 75, 8, 40, false, DataType::f16()},
                                   {1, 2, 192, 192, 16, 16, false, DataType::f16(), false, true}};
  for (Attention& a : shapes) {
    a.statistics = true;
    a.drops = a.keys % 2 != 0;
    const GroupTask task{attention(a), {}};
    for (const char* target : {"cuda:sm_80", "cuda:sm_90a"}) {
      const targets::Target t = targets::find_target(target);
      size_t tried = 0;
      for (const Construction& c : construct(t.families, task, t.info, nullptr)) {
        if (c.trace.at(0).find("keys at a time") == std::string::npos || ++tried > kMost) continue;
        SCOPED_TRACE(fmt::format("{}, {} queries, {} keys: {}", target, a.queries, a.keys, c.trace[0]));
        check_candidate(task, t, c, a.type == DataType::f16() ? 1e-2 : 4e-2);
        EXPECT_EQ(schedule::apply(te::apply_layouts(task.program, c.constant_layouts), c.schedule).kernels.size(), 1U);
      }
      EXPECT_GT(tried, 0U) << target;
    }
  }
}

// Heads of several lines of 128 bytes: whole ones, such that end with a tensor of lines that TMA fetches, and others.
TEST(Chain, WarpGroupsTakeHeadsOfSeveralLines) {
  constexpr size_t kMost = 2;  // of each: the interpreter takes seconds for one
  const Attention shapes[] = {{1, 1, 64, 128, 128, 128, true, DataType::f16()},
                              {1, 1, 70, 75, 96, 72, false, DataType::bf16()},
                              {1, 1, 65, 66, 90, 71, true, DataType::f16()},
                              {1, 1, 40, 66, 256, 192, true, DataType::f16()}};
  const targets::Target t = targets::find_target("cuda:sm_90a");
  for (const Attention& a : shapes) {
    const GroupTask task{attention(a), {}};
    size_t by_groups = 0, by_tma = 0;
    for (const Construction& c : construct(t.families, task, t.info, nullptr)) {
      if (c.trace.at(0).find("warp groups") == std::string::npos || by_groups == kMost) continue;
      SCOPED_TRACE(c.trace[0]);
      by_tma += c.trace[0].ends_with("by TMA") ? 1 : 0;
      check_candidate(task, t, c, a.type == DataType::f16() ? 1e-2 : 4e-2, Passes::kLast);
      ++by_groups;
    }
    EXPECT_EQ(by_groups, kMost);
    EXPECT_EQ(by_tma, a.depth % 8 == 0 ? kMost : 0);
  }
}

// Keys and values are there when the first block of rows is computed, and stay for the others.
TEST(Chain, BlocksOfRowsShareKeysAndValues) {
  const GroupTask task{attention({1, 2, 64, 128, 16, 400, false, DataType::f16()}), {}};
  const targets::Target t = targets::find_target("cuda:sm_90a");
  const Candidates all = construct(t.families, task, t.info, nullptr);
  const auto found = std::ranges::find_if(all, [](const Construction& c) {
    const std::string& tile = c.trace.at(0);
    return tile.find(" x ") != std::string::npos && !tile.starts_with("tiles of 1 x ");
  });
  ASSERT_NE(found, all.end());
  const std::string loops =
      loop::to_string(schedule::apply(te::apply_layouts(task.program, found->constant_layouts), found->schedule));
  const size_t block = loops.find(".0.2 in ");
  ASSERT_NE(block, std::string::npos) << loops;
  EXPECT_LT(loops.find("for scores.rhs."), block);
  EXPECT_LT(loops.find("for out.rhs."), block);
  EXPECT_GT(loops.find("for scores.acc."), block);
  check_candidate(task, t, *found, 1e-2);
}

TEST(Chain, RowsThatATileDoesNotHoldAreNone) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  std::vector<Decline> declines;
  construct(t.families, {attention({1, 2, 64, 2048, 64, 400, false, DataType::f16()}), {}}, t.info, &declines);
  const auto of_tiles = std::ranges::find(declines, "chain", &Decline::family);
  ASSERT_NE(of_tiles, declines.end());
  EXPECT_EQ(of_tiles->reason,
            "rows and operands do not fit shared memory, and block by block of a row: out has more columns, or scores "
            "more steps, than a warp holds");
  declines.clear();
  construct(t.families, {attention({1, 2, 64, 64, 64, 64, false}), {}}, t.info, &declines);
  construct(t.families, {attention({1, 2, 64, 32, 16, 520, false, DataType::f16()}), {}}, t.info, &declines);
  construct(t.families, {attention({2, 2, 64, 32, 16, 16, false, DataType::f16(), true}), {}}, t.info, &declines);
  std::set<std::string> reasons;
  for (const Decline& r : declines) reasons.insert(r.reason);
  EXPECT_TRUE(reasons.contains("scores multiplies no 16-bit floats"));
  EXPECT_TRUE(reasons.contains("scores has not one axis of rows in each batch"));
  EXPECT_TRUE(reasons.contains("out has more columns than a tile"));
}

}  // namespace
}  // namespace tw::construct
