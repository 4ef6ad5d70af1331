// Attention of few queries: parts of the keys in parallel, combined by a second kernel.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "te/rewrite.h"
#include "tests/construct/construct_check.h"
#include "tests/harness/te_programs.h"

namespace tw::construct {
namespace {

using testing::Attention;
using testing::attention;

// Checks all candidates in parts; returns how many there are.
size_t check_in_parts(const GroupTask& task, double tolerance) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  size_t parts = 0;
  for (const Construction& c : construct(t.families, task, t.info, nullptr)) {
    EXPECT_EQ(c.family, "chain");
    SCOPED_TRACE(c.trace.empty() ? "" : c.trace[0]);
    const bool split = !c.trace.empty() && c.trace[0].find("second kernel") != std::string::npos;
    check_candidate(task, t, c, tolerance);
    const te::Program stored = te::apply_layouts(task.program, c.constant_layouts);
    EXPECT_EQ(schedule::apply(stored, c.schedule).kernels.size(), split ? 2U : 1U);
    parts += split ? 1 : 0;
  }
  return parts;
}

TEST(SplitChain, FewQueriesAgainstManyKeys) {
  const Attention shapes[] = {
      {1, 2, 4, 256, 16, 16, true, DataType::f16()},  {2, 3, 5, 77, 8, 9, true, DataType::bf16()},
      {1, 1, 2, 200, 24, 40, false, DataType::f16()}, {1, 2, 20, 150, 16, 24, true, DataType::f16()},
      {1, 1, 40, 600, 8, 8, true, DataType::f16()},   {1, 2, 3, 129, 72, 72, false, DataType::f16()}};
  for (const Attention& a : shapes) {
    SCOPED_TRACE(fmt::format("{} x {} heads, {} queries, {} keys, depth {}, {} values", a.batch, a.heads, a.queries,
                             a.keys, a.depth, a.values));
    EXPECT_GT(check_in_parts({merged(attention(a)), {}}, a.type == DataType::f16() ? 1e-2 : 4e-2), 0U);
  }
}

TEST(SplitChain, OneQueryIsARow) {
  const Attention shapes[] = {{1, 3, 1, 200, 16, 16, true, DataType::f16()},
                              {2, 2, 1, 128, 8, 24, false, DataType::f16()},
                              {1, 1, 1, 2000, 16, 40, true, DataType::f16()}};
  for (const Attention& a : shapes) {
    SCOPED_TRACE(fmt::format("{} x {} heads, {} keys", a.batch, a.heads, a.keys));
    EXPECT_GT(check_in_parts({merged(attention(a)), {}}, 1e-2), 0U);
  }
}

// The program with `replace` of each node of its bodies, where that is not null.
te::Program replaced(te::Program program, const std::function<Expr(const Expr&)>& replace) {
  for (te::Compute& c : program.computes) {
    for (Expr& body : c.body) body = rewrite(body, replace);
  }
  return program;
}

TEST(SplitChain, LargeScoresAndMasksOfEverything) {
  const te::Program plain = merged(attention({1, 2, 3, 200, 16, 16, true, DataType::f16()}));
  const auto large = [](const Expr& e) { return e.op() == Op::kFloatImm ? float_imm(1e4) : Expr(); };
  const auto hidden = [](const Expr& e) {
    const bool is_mask = e.op() == Op::kLoad && e->name == "mask";
    return is_mask ? select(e->args.back() < int_imm(e->args.size() == 1 ? 200 : 100), float_imm(-INFINITY), e)
                   : Expr();
  };
  const auto all = [](const Expr& e) {
    return e.op() == Op::kLoad && e->name == "mask" ? float_imm(-INFINITY) : Expr();
  };
  EXPECT_GT(check_in_parts({replaced(plain, large), {}}, 1e-2), 0U);
  EXPECT_GT(check_in_parts({replaced(plain, hidden), {}}, 1e-2), 0U);
  EXPECT_GT(check_in_parts({replaced(plain, all), {}}, 1e-2), 0U);
}

// The lowest bf16, as exporters write masks, read from memory for every key of a row: the mean of the values, no NaN.
TEST(SplitChain, LowNumbersInAMaskThatIsReadStayNumbers) {
  constexpr double kLowest = -0x1.fep127;
  const auto low = [&](const Expr& e) {
    return e.op() == Op::kLoad && e->name == "mask" ? min(e, float_imm(kLowest)) : Expr();
  };
  EXPECT_GT(check_in_parts({replaced(merged(attention({1, 1, 3, 70, 16, 16, true, DataType::bf16()})), low), {}}, 4e-2),
            0U);
  const targets::Target t = targets::find_target("cuda:sm_90a");
  const GroupTask task{replaced(merged(attention({1, 1, 70, 150, 16, 16, true, DataType::bf16()})), low), {}};
  size_t streamed = 0;
  for (const Construction& c : construct(t.families, task, t.info, nullptr)) {
    if (c.trace.at(0).find("keys at a time") == std::string::npos) continue;
    check_candidate(task, t, c, 4e-2);
    ++streamed;
  }
  EXPECT_GT(streamed, 0U);
}

TEST(SplitChain, SpecialValuesReachTheRowsThatReadThem) {
  const GroupTask task{merged(attention({1, 2, 2, 150, 8, 16, true, DataType::f16()})), {}};
  const targets::Target t = targets::find_target("cuda:sm_80");
  for (const Construction& c : construct(t.families, task, t.info, nullptr))
    check_candidate(task, t, c, 1e-2, Passes::kSome, Values::kSpecial);
}

}  // namespace
}  // namespace tw::construct
