// What is read where, and what indices are divided by.
#include "te/reads.h"

#include <gtest/gtest.h>

namespace tw::te {
namespace {

using Indices = std::vector<Expr>;

// a = x + 1, b = a + a (its own point), c = b transposed + y.
Program chain() {
  Builder builder;
  const Tensor x = builder.placeholder("x", DataType::f32(), {3, 3});
  const Tensor y = builder.placeholder("y", DataType::f32(), {3, 3});
  const Tensor a = builder.compute("a", {3, 3}, [&](const Indices& i) { return x(i) + float_imm(1); });
  const Tensor b = builder.compute("b", {3, 3}, [&](const Indices& i) { return a(i) * a({i[0], i[1]}); });
  const Tensor c = builder.compute("c", {3, 3}, [&](const Indices& i) { return b({i[1], i[0]}) + y(i); });
  return builder.finish("chain", {c});
}

TEST(Reads, AreCountedAndCollected) {
  const Program p = chain();
  EXPECT_EQ(count_reads(p)["a"], 2);
  EXPECT_EQ(count_reads(p)["c"], 0);
  EXPECT_EQ(count_reads(*p.find_compute("c"), "b"), 1);
  const std::vector<Expr> reads = reads_of(*p.find_compute("c"), {p.tensor("b"), p.tensor("y"), p.tensor("a")});
  ASSERT_EQ(reads.size(), 2u);
  EXPECT_EQ(reads[0]->name, "b");
  EXPECT_EQ(reads[1]->name, "y");
}

TEST(Reads, DependOnWhatTheirProducersRead) {
  const Program p = chain();
  EXPECT_TRUE(depends_on(p, *p.find_compute("c"), "x"));
  EXPECT_TRUE(depends_on(p, *p.find_compute("c"), "y"));
  EXPECT_FALSE(depends_on(p, *p.find_compute("b"), "y"));
  EXPECT_FALSE(depends_on(p, *p.find_compute("b"), "c"));
}

TEST(Reads, OfChainsThatForkAreFollowedOnce) {
  Builder builder;
  const Tensor x = builder.placeholder("x", DataType::f32(), {2});
  Tensor last = x;
  for (int n = 0; n < 60; ++n) {  // 2^60 paths
    last = builder.compute("t", {2}, [&](const Indices& i) { return last(i) + last({Expr(1) - i[0]}); });
  }
  const Program p = builder.finish("forks", {last});
  EXPECT_TRUE(depends_on(p, p.computes.back(), "x"));
  EXPECT_FALSE(depends_on(p, p.computes.back(), "z"));
}

TEST(Reads, OfIndicesAreLimited) {
  Builder builder;
  const Tensor at = builder.placeholder("at", DataType::i64(), {3}), x = builder.placeholder("x", DataType::f32(), {9});
  const Tensor y = builder.compute(
      "y", {3}, [&](const Indices& i) { return x({min(max(at(i), int_imm(0)), int_imm(8))}) + cast(x.type, at(i)); });
  const Program p = builder.finish("gather", {y});
  EXPECT_EQ(largest_index(p, "at"), 8);
  EXPECT_EQ(largest_index(p, "x"), std::nullopt);
}

TEST(Reads, AtTheirOwnPoint) {
  const Program p = chain();
  EXPECT_TRUE(reads_own_point(*p.find_compute("b"), "a"));
  EXPECT_FALSE(reads_own_point(*p.find_compute("c"), "b"));
  const Compute& c = *p.find_compute("c");
  EXPECT_EQ(own_axes(c, load("b", DataType::f32(), {c.axes[0].var(), Expr(0)})), 1u);
  EXPECT_EQ(own_axes(c, load("b", DataType::f32(), {c.axes[1].var(), c.axes[1].var()})), 0u);
}

// y[i] = x[index(i)].
Program gather(const std::function<Expr(const Expr&)>& index) {
  Builder builder;
  const Tensor x = builder.placeholder("x", DataType::f32(), {100});
  const Tensor y = builder.compute("y", {10}, [&](const Indices& i) { return x({index(i[0])}); });
  return builder.finish("gather", {y});
}

TEST(Reads, CommonDivisor) {
  EXPECT_EQ(common_divisor(gather([](const Expr& i) { return i * Expr(4); })), 1);
  const auto both = [](const Expr& i) { return floor_div(i, Expr(4)) + floor_mod(i, Expr(6)); };
  EXPECT_EQ(common_divisor(gather(both)), 24);
  EXPECT_EQ(common_divisor(gather([](const Expr& i) { return floor_mod(Expr(7), i + Expr(1)); })), 0);
  const auto large = [](const Expr& i) {
    return floor_div(floor_div(i, int_imm(int64_t{1} << 40)) + i, int_imm(int64_t{1} << 40));
  };
  EXPECT_EQ(common_divisor(gather(large)), 0);
}

}  // namespace
}  // namespace tw::te
