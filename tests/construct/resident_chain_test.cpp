// Products one after the other as one kernel on GPUs: what passes between them never leaves the chip.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "te/rewrite.h"
#include "te/te.h"
#include "tests/construct/construct_check.h"
#include "tests/harness/te_programs.h"

namespace tw::construct {
namespace {

using Exprs = std::vector<Expr>;

// Windows of `kernel` x `kernel` pixels over two images of `size` x `size`, moved by `stride`, then products of their
// channels; kernel 0: a matrix of `size` rows. `widths` are channels: of the input, then of each result.
struct Products {
  int64_t size, kernel, stride;
  std::vector<int64_t> widths;
  DataType type = DataType::f16();
};

Expr widened(const Expr& e) { return cast(DataType::f32(), e); }

te::Tensor first_product(te::Builder& b, const Products& p) {
  const int64_t in = p.widths[0], out = p.widths[1], k = p.kernel, pad = k / 2;
  if (k == 0) {
    const te::Tensor x = b.placeholder("x", p.type, {p.size, in}), w = b.placeholder("w0", p.type, {out, in});
    return b.reduce("sum0", {p.size, out}, {in}, te::CombinerKind::kSum, [&](const Exprs& i, const Exprs& r) {
      return widened(x({i[0], r[0]})) * widened(w({i[1], r[0]}));
    });
  }
  const te::Tensor x = b.placeholder("x", p.type, {2, p.size, p.size, in});
  const te::Tensor w = b.placeholder("w0", p.type, {out, k, k, in});
  const auto inside = [&](const Expr& i) { return i >= Expr(pad) && i < Expr(p.size + pad); };
  const te::Tensor padded = b.compute("pad", {2, p.size + 2 * pad, p.size + 2 * pad, in}, [&](const Exprs& i) {
    return select(inside(i[1]) && inside(i[2]), x({i[0], i[1] - Expr(pad), i[2] - Expr(pad), i[3]}), imm(p.type, 0));
  });
  const int64_t side = (p.size + 2 * pad - k) / p.stride + 1;
  return b.reduce("sum0", {2, side, side, out}, {in, k, k}, te::CombinerKind::kSum,
                  [&](const Exprs& i, const Exprs& r) {
                    const Expr y = i[1] * Expr(p.stride) + r[1], at = i[2] * Expr(p.stride) + r[2];
                    return widened(padded({i[0], y, at, r[0]})) * widened(w({i[3], r[1], r[2], r[0]}));
                  });
}

// Each product with a factor that keeps it small, a bias and relu behind it; the second one adds what it is a product
// of once more.
te::Program products(const Products& p, bool residual = false) {
  te::Builder b;
  te::Tensor sum = first_product(b, p);
  for (size_t n = 1;; ++n) {
    const std::string number = std::to_string(n);
    const te::Tensor bias = b.placeholder("bias" + number, p.type, {p.widths[n]});
    const bool last = n + 1 == p.widths.size();
    const te::Tensor other = residual && last ? b.placeholder("other", p.type, sum.shape) : te::Tensor();
    const te::Tensor y = b.compute("y" + number, sum.shape, [&](const Exprs& i) {
      Expr all = sum(i) * float_imm(0.0625) + widened(bias({i.back()}));
      if (residual && last) all = all + widened(other(i));
      return cast(p.type, max(all, float_imm(0)));
    });
    if (last) return b.finish("products", {y});
    const te::Tensor w = b.placeholder("w" + number, p.type, {p.widths[n + 1], p.widths[n]});
    Shape shape = y.shape;
    shape.back() = p.widths[n + 1];
    sum = b.reduce("sum" + number, shape, {p.widths[n]}, te::CombinerKind::kSum, [&](const Exprs& i, const Exprs& r) {
      Exprs row(i.begin(), i.end() - 1);
      row.push_back(r[0]);
      return widened(y(row)) * widened(w({i.back(), r[0]}));
    });
  }
}

std::set<std::string> weights_of(const te::Program& program) {
  std::set<std::string> names;
  for (const te::Tensor& t : program.inputs) {
    if (t.name != "x" && t.name != "other") names.insert(t.name);
  }
  return names;
}

// All candidates compute what the maths say, as one kernel; returns what they say of themselves.
std::vector<std::string> check_products(const te::Program& program, const char* target = "cuda:sm_90a") {
  const targets::Target t = targets::find_target(target);
  const GroupTask task{merged(program), weights_of(program)};
  std::vector<std::string> traces;
  for (const Construction& c : construct(t.families, task, t.info, nullptr)) {
    EXPECT_EQ(c.family, "chain");
    SCOPED_TRACE(c.trace.at(0));
    check_candidate(task, t, c, program.inputs[0].type == DataType::f16() ? 2e-2 : 6e-2);
    EXPECT_EQ(schedule::apply(te::apply_layouts(task.program, c.constant_layouts), c.schedule).kernels.size(), 1U);
    EXPECT_EQ(schedule::parse_schedule(schedule::to_string(c.schedule)), c.schedule);
    traces.push_back(c.trace[0]);
  }
  return traces;
}

int64_t count_saying(const std::vector<std::string>& traces, const std::string& what) {
  return std::ranges::count_if(traces, [&](const std::string& t) { return t.find(what) != std::string::npos; });
}

TEST(ResidentChain, MatricesAtOddShapes) {
  for (const Products& p : {Products{200, 0, 1, {64, 64, 16}},
                            {130, 0, 1, {72, 40, 24}},
                            {77, 0, 1, {30, 17, 9}, DataType::bf16()},
                            {96, 0, 1, {46, 96, 40}},
                            {64, 0, 1, {64, 128, 96}},
                            {256, 0, 1, {64, 32, 264}}}) {
    SCOPED_TRACE(fmt::format("{} rows of {}", p.size, fmt::join(p.widths, ", ")));
    const std::vector<std::string> traces = check_products(products(p));
    EXPECT_GT(count_saying(traces, "of 2 products in registers"), 0);
    EXPECT_GT(count_saying(traces, "of 2 products in shared memory"), 0);
    EXPECT_GT(count_saying(check_products(products(p), "cuda:sm_80"), "of 2 products in registers"), 0);
  }
}

// One weight for both products: as it is, and with rows and columns changed places, as in an autoencoder.
TEST(ResidentChain, ProductsOfOneWeight) {
  for (const bool turned : {false, true}) {
    SCOPED_TRACE(turned ? "turned" : "as it is");
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::f16(), {130, 64}),
                     w = b.placeholder("w", DataType::f16(), {64, 64});
    const te::Tensor s = b.reduce("s", {130, 64}, {64}, te::CombinerKind::kSum, [&](const Exprs& i, const Exprs& r) {
      return widened(x({i[0], r[0]})) * widened(w({i[1], r[0]}));
    });
    const te::Tensor h = b.compute("h", s.shape, [&](const Exprs& i) {
      return cast(DataType::f16(), max(s(i) * float_imm(0.0625), float_imm(0)));
    });
    const te::Tensor t = b.reduce("t", {130, 64}, {64}, te::CombinerKind::kSum, [&](const Exprs& i, const Exprs& r) {
      return widened(h({i[0], r[0]})) * widened(turned ? w({r[0], i[1]}) : w({i[1], r[0]}));
    });
    const te::Tensor y = b.compute("y", t.shape, [&](const Exprs& i) { return cast(DataType::f16(), t(i)); });
    EXPECT_FALSE(check_products(b.finish("tied", {y})).empty());
  }
}

TEST(ResidentChain, ThreeProducts) {
  const std::vector<std::string> traces = check_products(products({150, 0, 1, {64, 32, 48, 16}}));
  EXPECT_GT(count_saying(traces, "of 3 products in registers"), 0);
  EXPECT_GT(count_saying(traces, "of 3 products in shared memory"), 0);
}

TEST(ResidentChain, Convolutions) {
  for (const Products& p : {Products{9, 3, 1, {8, 16, 16}},
                            {11, 3, 2, {8, 24, 40}},
                            {7, 3, 1, {3, 16, 16}},
                            {6, 1, 1, {16, 32, 24}},
                            {8, 3, 1, {16, 16, 24, 16}}}) {
    SCOPED_TRACE(fmt::format("{} pixels of {}", p.size, fmt::join(p.widths, ", ")));
    EXPECT_FALSE(check_products(products(p)).empty());
  }
}

// Rows of images go on to where the last filter position reads, for all products.
TEST(ResidentChain, FilterPositionsShareTheRowsThatTheyRead) {
  EXPECT_GT(count_saying(check_products(products({12, 3, 1, {64, 32, 16}}, true)), "one for 3 filter positions"), 0);
}

// Numbers instead of matrices: a thread has whole rows, of products and of a softmax.
TEST(ThreadRows, AreShort) {
  for (const Products& p : {Products{333, 0, 1, {4, 1, 4}}, Products{40, 0, 1, {9, 3, 2, 5}}}) {
    SCOPED_TRACE(fmt::format("rows of {}", fmt::join(p.widths, ", ")));
    const te::Program program = products(p);
    check({merged(program), weights_of(program)}, "cuda:sm_90a", "thread-rows", 1e-2);
  }
  check({merged(testing::softmax(77, 10)), {}}, "cuda:sm_90a", "thread-rows", 1e-5);
  check({merged(testing::softmax(3, 31)), {}}, "cuda:sm_90a", "thread-rows", 1e-5);
  check({merged(testing::softmax(0, 10)), {}}, "cuda:sm_90a", "point", 1e-5);
}

TEST(ResidentChain, WhatATileDoesNotHoldIsApart) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  const auto reason = [&](const Products& p) {
    std::vector<Decline> declines;
    const te::Program program = merged(products(p));
    construct(t.families, {program, weights_of(program)}, t.info, &declines);
    const auto of_tiles = std::ranges::find(declines, "chain", &Decline::family);
    return of_tiles == declines.end() ? "" : of_tiles->reason;
  };
  EXPECT_EQ(reason({64, 0, 1, {264, 264, 32}}), "sum0 has more columns than a warp holds");
  EXPECT_EQ(reason({64, 0, 1, {64, 4, 32}}), "sum0 is no product of matrices but of vectors");
  EXPECT_EQ(reason({64, 0, 1, {64, 32, 32}, DataType::f32()}), "sum0 multiplies no 16-bit floats");
}

}  // namespace
}  // namespace tw::construct
