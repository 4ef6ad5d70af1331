// Outputs that the tiles of another stage store: where, and what is refused.
#include <gtest/gtest.h>

#include "schedule/schedule.h"
#include "support/error.h"
#include "tests/harness/loop_check.h"

namespace tw::schedule {
namespace {

using testing::refusal;

// y[i, j] = x[i, j] - m[i] of the row sums m, both outputs.
te::Program centred(int64_t rows, int64_t n) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {rows, n});
  const te::Tensor m = b.reduce("m", {rows}, {n}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return x({i[0], r[0]});
  });
  const te::Tensor y = b.compute("y", {rows, n}, [&](const auto& i) { return x(i) - m({i[0]}); });
  return b.finish("centred", {y, m});
}

// v[i, j] = 2 x[i, j] and its column sums.
te::Program with_sums(int64_t rows, int64_t n) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {rows, n});
  const te::Tensor v = b.compute("v", {rows, n}, [&](const auto& i) { return x(i) * float_imm(2); });
  const te::Tensor s = b.reduce("s", {n}, {rows}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return v({r[0], i[0]});
  });
  return b.finish("with_sums", {v, s});
}

void expect_same(const te::Program& program, const Schedule& schedule, size_t kernels) {
  const loop::Program loops = apply(program, schedule);
  loop::verify(loops);
  EXPECT_EQ(loops.kernels.size(), kernels) << loop::to_string(loops);
  const te::ValueMap inputs = testing::whole_inputs(program);
  EXPECT_EQ(testing::first_difference(program, te::evaluate(program, inputs), testing::run_loops(loops, inputs), 0), "")
      << loop::to_string(loops);
}

Schedule rows_of(int64_t rows) {
  Schedule s;
  s.cache_write("m").split("y", "i0", {rows}).write_at("m", "y", "i0.0");
  s.compute_at("m.acc", "y", "i0.0", loop::Scope::kStack).parallel("y", {"i0.0"});
  return s;
}

TEST(WriteAt, StatisticsAreStoredBesideTheirRows) {
  for (const int64_t rows : {1, 2, 4}) {
    SCOPED_TRACE(rows);
    expect_same(centred(7, 5), rows_of(rows), 1);
  }
}

// Nothing else reads the statistic: the rows of a tile are the consumer's.
TEST(WriteAt, WhatNobodyReadsFollowsTheConsumersAxes) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {6, 5});
  const te::Tensor m = b.reduce("m", {6}, {5}, te::CombinerKind::kMax, [&](const auto& i, const auto& r) {
    return x({i[0], r[0]});
  });
  const te::Tensor y = b.compute("y", {6, 5}, [&](const auto& i) { return x(i) + float_imm(1); });
  expect_same(b.finish("p", {m, y}), rows_of(4), 1);
}

TEST(WriteAt, AValueIsStoredWhereItsColumnsAreSummed) {
  Schedule s;
  s.cache_write("v").cache_write("s").split("s", "i0", {2}).parallel("s", {"i0.0"});
  s.compute_at("s.acc", "s", "i0.0", loop::Scope::kStack).reorder("s.acc", {"r0", "i0"});
  s.write_at("v", "s.acc", "r0").compute_at("v.acc", "s.acc", "r0", loop::Scope::kStack);
  expect_same(with_sums(5, 6), s, 1);
  expect_same(with_sums(5, 7), s, 1);
}

TEST(WriteAt, NoElementIsStoredTwice) {
  Schedule by_column;
  by_column.cache_write("m").reorder("y", {"i1", "i0"}).write_at("m", "y", "i0");
  EXPECT_NE(refusal(centred(7, 5), by_column).find("stored more than once"), std::string::npos);
  Schedule columns;
  columns.cache_write("m").write_at("m", "y", "i1");
  EXPECT_NE(refusal(centred(7, 5), columns).find("stored more than once"), std::string::npos);
}

TEST(WriteAt, OnlyCopiesThatLeave) {
  Schedule reduction;
  reduction.write_at("m", "y", "i0");
  EXPECT_NE(refusal(centred(7, 5), reduction).find("not made of one tensor, point by point"), std::string::npos);
  Schedule inside;
  inside.cache_write("y").write_at("y.acc", "y", "i0");
  EXPECT_NE(refusal(centred(7, 5), inside), "accepted");
}

}  // namespace
}  // namespace tw::schedule
