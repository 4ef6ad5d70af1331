// Products on GPUs: every schedule computes what the te program says.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "codegen/cuda/emit.h"
#include "expr/tf32.h"
#include "lower/pass.h"
#include "te/reads.h"
#include "tests/construct/construct_check.h"
#include "tests/construct/products.h"
#include "tests/harness/te_programs.h"

namespace tw::construct {
namespace {

TEST(ConstructGpu, TermsOfAProductAreNoRowOfOneElementsOwn) {
  check({merged(testing::matmul_relu(5, 40, 64)), {}}, "cuda:sm_90a", "point", 1e-5);
}

TEST(ConstructGpu, ProductsOfMatrices) {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{8, 8, 1}, {33, 70, 13}, {64, 64, 32}, {130, 9, 40}}) {
    SCOPED_TRACE(fmt::format("{} x {}, {} steps", m, n, k));
    check({testing::matmul_relu(m, n, k), {}}, "cuda:sm_90a", "contraction", 1e-5);
    check({testing::matmul_relu(m, n, k), {"w"}}, "cuda:sm_80", "contraction", 1e-5);
  }
}

// x w + b and what a GELU by erf hands back through it: e is made twice of, and of b alone.
te::Program with_stages_beside(int64_t m, int64_t n, int64_t k) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {m, k}), w = b.placeholder("w", DataType::f32(), {k, n}),
                   h = b.placeholder("h", DataType::f32(), {m, n});
  const te::Tensor e = b.compute("e", {m, n}, [&](const auto& i) { return h(i) * float_imm(0.5) + float_imm(1); });
  const te::Tensor y = b.reduce("y", {m, n}, {k}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return x({i[0], r[0]}) * w({r[0], i[1]});
  });
  const te::Tensor z = b.compute("z", {m, n}, [&](const auto& i) { return y(i) * e(i) + e(i) * e(i); });
  return b.finish("beside", {z});
}

TEST(ConstructGpu, WhatStandsBesideAProductIsPartOfItsEpilogue) {
  check({merged(with_stages_beside(70, 40, 24)), {}}, "cuda:sm_90a", "contraction", 1e-5);
}

// Stages that are read more than once, before what is stored: each thread has them in registers, and there is one
// kernel.
TEST(ConstructGpu, StagesOfOneEndAreHeld) {
  for (const DataType type : {DataType::f32(), DataType::bf16()}) {
    te::Builder b;
    const te::Tensor x = b.placeholder("x", type, {37, 64});
    const auto in_f32 = [](const Expr& e) { return cast(DataType::f32(), e); };
    const te::Tensor t =
        b.compute("t", x.shape, [&](const auto& i) { return in_f32(x(i)) * in_f32(x(i)) + float_imm(1); });
    const te::Tensor u = b.compute("u", x.shape, [&](const auto& i) { return t(i) * float_imm(3) + t(i); });
    const te::Tensor v = b.compute("v", x.shape, [&](const auto& i) { return cast(type, u(i) * t(i) + u(i)); });
    const GroupTask task{merged(b.finish("held", {v})), {}};
    for (const char* name : {"cuda:sm_90a", "cpu:x86-64-v3"}) {
      const targets::Target target = targets::find_target(name);
      check(task, name, target.info.kind == DeviceKind::kCuda ? "point" : "generic",
            type == DataType::f32() ? 1e-5 : 1e-2);
      const Construction built = construct(target.families, task, target.info, nullptr).front();
      const std::string text = schedule::to_string(built.schedule);
      for (const char* stage : {"compute_at t ", "compute_at u "})
        EXPECT_NE(text.find(stage), std::string::npos) << name << "\n" << text;
    }
  }
}

TEST(ConstructGpu, ProductsByMatrixInstructions) {
  for (const DataType type : {DataType::f16(), DataType::bf16()}) {
    check({merged(halves({1, 40, 48}, {1, 48, 24}, type)), {}}, "cuda:sm_90a", "contraction", 1e-2);
    check({merged(halves({3, 17, 20}, {3, 9, 20}, type)), {"w"}}, "cuda:sm_80", "contraction", 1e-2);
  }
  const targets::Target t = targets::find_target("cuda:sm_90a");
  const Construction built =
      construct(t.families, {merged(halves({1, 40, 48}, {1, 48, 24}, DataType::f16())), {}}, t.info, nullptr).front();
  EXPECT_NE(schedule::to_string(built.schedule).find("\"mma\""), std::string::npos);
}

// Queries and keys of two heads are columns of one product's result.
TEST(ConstructGpu, OperandsAreColumnsOfOneTensor) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f16(), {40, 4, 32});
  const te::Tensor y = b.reduce("y", {2, 40, 40}, {32}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return cast(DataType::f32(), x({i[1], i[0], r[0]})) * cast(DataType::f32(), x({i[2], i[0] + Expr(2), r[0]}));
  });
  const te::Tensor z = b.compute("z", y.shape, [&](const auto& i) { return cast(DataType::f16(), y(i)); });
  check({merged(b.finish("scores", {z})), {}}, "cuda:sm_90a", "contraction", 1e-2);
}

// Constant columns come in the order in which instructions leave them, so that threads store 8 beside each other;
// operands come by TMA, for clusters of tiles.
TEST(ConstructGpu, ProductsByTma) {
  targets::Target t = targets::find_target("cuda:sm_90a");
  const GroupTask task{merged(halves({1, 256, 136}, {1, 96, 136}, DataType::f16())), {"w"}};
  std::set<std::string> seen;
  for (const double l2_share : {48, 12, 3, 1}) {  // clusters pay where L2 is slow
    t.info.sm.l2_share = l2_share;
    for (const Construction& candidate : construct(t.families, task, t.info, nullptr)) {
      const std::string schedule = schedule::to_string(candidate.schedule);
      if (schedule.find("\"bulk\"") == std::string::npos) continue;
      const std::string& trace = candidate.trace.front();
      const size_t cluster = trace.find("in clusters of ");
      if (!seen.insert(cluster == std::string::npos ? "alone" : trace.substr(cluster, 16)).second) continue;
      EXPECT_EQ(candidate.constant_layouts.size(), 1U);
      EXPECT_NE(schedule.find(", 8)"), std::string::npos) << "sums are stored 8 columns together";
      check_candidate(task, t, candidate, 1e-2, Passes::kLast);
    }
  }
  EXPECT_EQ(seen, (std::set<std::string>{"alone", "in clusters of 2", "in clusters of 4"}));
}

// Where steps lie apart and lines beside each other, as in a gradient of weights, warp groups read them so: by TMA in
// whole or last blocks, by threads where lines begin between its parts.
TEST(ConstructGpu, OperandsWhoseLinesLieBesideEachOther) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  const auto kinds = [&](int64_t steps, int64_t rows, int64_t columns) {
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::f16(), {steps, rows}),
                     w = b.placeholder("w", DataType::f16(), {steps, columns});
    const te::Tensor y =
        b.reduce("y", {rows, columns}, {steps}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
          return cast(DataType::f32(), x({r[0], i[0]})) * cast(DataType::f32(), w({r[0], i[1]}));
        });
    const te::Tensor z = b.compute("z", y.shape, [&](const auto& i) { return cast(DataType::f16(), y(i)); });
    const GroupTask task{merged(b.finish("gradient", {z})), {}};
    std::set<std::string> seen;
    for (const Construction& candidate : construct(t.families, task, t.info, nullptr)) {
      const std::string schedule = schedule::to_string(candidate.schedule), &trace = candidate.trace.front();
      if (trace.find("of warp groups") == std::string::npos) continue;
      const bool by_tma = schedule.find("\"bulk\"") != std::string::npos;
      const bool in_blocks = schedule.find("layout y.rhs \"split(0, ") != std::string::npos;
      const bool shared = trace.find("in clusters") != std::string::npos;
      const std::string kind = fmt::format("{}{}{}", by_tma ? "TMA" : "threads", in_blocks ? " in blocks" : "",
                                           shared ? " in clusters" : "");
      if (!seen.insert(kind).second) continue;
      check_candidate(task, t, candidate, 1e-2, Passes::kLast);
    }
    return seen;
  };
  EXPECT_TRUE(kinds(128, 128, 128).contains("TMA in blocks"));
  EXPECT_TRUE(kinds(256, 256, 128).contains("TMA in blocks in clusters"));
  EXPECT_TRUE(kinds(136, 200, 72).contains("TMA in blocks")) << "zeros behind the last blocks";
  EXPECT_FALSE(kinds(128, 132, 132).contains("TMA in blocks")) << "lines of 264 bytes";
}

// Widths that fill no tile of 256: no box of a tile begins beyond its tensor, in whole sums and in parts of them.
TEST(ConstructGpu, BlocksOfLinesOfAnyWidth) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  lower::RunOptions run;
  run.lower.vector_bytes = t.info.vector_bytes;
  run.lower.has.halves = true;
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{64, 192},
                                                                              {192, 64},
                                                                              {320, 384},
                                                                              {384, 320},
                                                                              {768, 640},
                                                                              {448, 1152},
                                                                              {452, 1156},
                                                                              {324, 388},
                                                                              {300, 132},
                                                                              {1000, 1000},
                                                                              {25088, 192},
                                                                              {25088, 384}}) {
    SCOPED_TRACE(fmt::format("{} rows, {} columns", rows, columns));
    const bool gradient = rows < 25088;  // of weights, whose steps are many
    const int64_t steps = gradient ? 12544 : 768;
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::bf16(), gradient ? Shape{steps, rows} : Shape{rows, steps}),
                     w = b.placeholder("w", DataType::bf16(), {steps, columns});
    const te::Tensor y =
        b.reduce("y", {rows, columns}, {steps}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
          return cast(DataType::f32(), gradient ? x({r[0], i[0]}) : x({i[0], r[0]})) *
                 cast(DataType::f32(), w({r[0], i[1]}));
        });
    const te::Program program = merged(b.finish("product", {y}));
    run.lower.inner_divisor = te::common_divisor(program);
    size_t by_tma = 0;
    for (const Construction& candidate : construct(t.families, {program, {}}, t.info, nullptr)) {
      by_tma += schedule::to_string(candidate.schedule).find("\"bulk\"") != std::string::npos ? 1 : 0;
      EXPECT_NO_THROW(codegen::emit_cuda(lower::lower(schedule::apply(program, candidate.schedule), run)))
          << candidate.trace.front() << schedule::to_string(candidate.schedule);
    }
    EXPECT_EQ(by_tma > 0, columns % 8 == 0) << "lines of whole 16 bytes";
  }
}

// Constants have zeros behind their columns, up to whole blocks, where threads store several beside each other, and
// behind their steps, up to whole lines of memory, but few.
TEST(ConstructGpu, TmaOfColumnsThatFillNoTile) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  const auto layouts = [&](int64_t columns, int64_t steps) {
    const GroupTask task{merged(halves({1, 64, steps}, {1, columns, steps}, DataType::f16())), {"w"}};
    check(task, "cuda:sm_90a", "contraction", 1e-2);
    std::string all;
    for (const Construction& candidate : construct(t.families, task, t.info, nullptr)) {
      const bool by_tma = schedule::to_string(candidate.schedule).find("\"bulk\"") != std::string::npos;
      if (by_tma && candidate.constant_layouts.contains("w"))
        all += to_string(candidate.constant_layouts.at("w")) + "\n";
    }
    return all;
  };
  EXPECT_EQ(layouts(33, 128), "") << "columns that are no pairs stay in order";
  const std::string dealt = layouts(136, 248);
  EXPECT_NE(dealt.find("pad(1, 0, 8) pad(0, 0, 8) split(0, 9, 4, 2, 2)"), std::string::npos) << dealt;
  const std::string few = layouts(24, 200);
  EXPECT_NE(few.find("pad(1, 0, 8)\n"), std::string::npos) << few;
  EXPECT_EQ(few.find("split"), std::string::npos) << few;
}

// Of operands that go on beyond the product's lines and steps no more is taken than it asks for.
TEST(ConstructGpu, OperandsAreTheBeginningOfTensors) {
  const auto part = [](const Shape& x_shape, const Shape& w_shape) {
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::f16(), x_shape), w = b.placeholder("w", DataType::f16(), w_shape);
    const te::Tensor y = b.reduce("y", {40, 40}, {72}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
      return cast(DataType::f32(), x({i[0], r[0]})) * cast(DataType::f32(), w({i[1], r[0]}));
    });
    return b.finish("part", {b.compute("z", y.shape, [&](const auto& i) { return cast(DataType::f16(), y(i)); })});
  };
  for (const auto& [x, w] :
       {std::pair<Shape, Shape>{{40, 144}, {40, 72}}, {{40, 72}, {40, 144}}, {{40, 72}, {104, 72}}}) {
    SCOPED_TRACE(fmt::format("{} steps of x, {} columns of {} steps of w", x[1], w[0], w[1]));
    for (const std::set<std::string>& constants : {std::set<std::string>{}, {"w"}})
      check({part(x, w), constants}, "cuda:sm_90a", "contraction", 1e-2);
  }
}

// More tiles than SMs: blocks that walk over them are candidates, for products and for windows, alone and in clusters.
TEST(ConstructGpu, BlocksWalkOverTiles) {
  targets::Target t = targets::find_target("cuda:sm_90a");
  t.info.compute_units = 2;
  const auto walking = [&](const GroupTask& task) {
    int64_t found = 0, clusters = 0;
    for (const Construction& candidate : construct(t.families, task, t.info, nullptr)) {
      if (candidate.trace.front().find("walking over them") == std::string::npos) continue;
      const bool in_clusters = candidate.trace.front().find("in clusters of 2") != std::string::npos;
      EXPECT_NE(schedule::to_string(candidate.schedule).find(in_clusters ? " [2,2," : " [1,2,"), std::string::npos);
      if (++(in_clusters ? clusters : found) == 1) check_candidate(task, t, candidate, 1e-2);
    }
    EXPECT_EQ(clusters > 0, found > 0);
    return found;
  };
  EXPECT_GT(walking({merged(halves({1, 1100, 136}, {1, 96, 136}, DataType::f16())), {"w"}}), 0);
  EXPECT_EQ(walking({merged(halves({1, 64, 136}, {1, 64, 136}, DataType::f16())), {"w"}}), 0) << "few tiles";
}

// Channels last, 16-bit, as the driver gives a convolution with channels filled up: accesses of whole pixels.
// `beyond`: rows and columns of x that it does not read, as where a slice of an image is convolved.
te::Program conv_of_halves(const testing::ConvShape& c, DataType type, int64_t beyond = 0) {
  te::Builder b;
  const int64_t pad = c.kernel / 2, out = (c.size + 2 * pad - c.kernel) / c.stride + 1;
  const te::Tensor x = b.placeholder("x", type, {2, c.size + beyond, c.size + beyond, c.channels});
  const te::Tensor w = b.placeholder("w", type, {c.out_channels, c.kernel, c.kernel, c.channels});
  const Shape padded{2, c.size + 2 * pad, c.size + 2 * pad, c.channels};
  const auto inside = [&](const Expr& i) { return i >= Expr(pad) && i < Expr(c.size + pad); };
  const te::Tensor p = b.compute("pad", padded, [&](const auto& i) {
    return select(inside(i[1]) && inside(i[2]), x({i[0], i[1] - Expr(pad), i[2] - Expr(pad), i[3]}), imm(type, 0));
  });
  const te::Tensor acc =
      b.reduce("acc", {2, out, out, c.out_channels}, {c.channels, c.kernel, c.kernel}, te::CombinerKind::kSum,
               [&](const auto& i, const auto& r) {
                 const Expr a = p({i[0], i[1] * Expr(c.stride) + r[1], i[2] * Expr(c.stride) + r[2], r[0]});
                 return multiplied(a) * multiplied(w({i[3], r[1], r[2], r[0]}));
               });
  const te::Tensor y = b.compute("y", acc.shape, [&](const auto& i) { return cast(type, acc(i)); });
  return b.finish("conv", {y});
}

// Candidates for `task` that are split-K compute what its program says; returns their first lines of trace.
std::vector<std::string> check_parts(const GroupTask& task) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  std::vector<std::string> traces;
  for (const Construction& candidate : construct(t.families, task, t.info, nullptr)) {
    if (candidate.trace.front().find("split-K") == std::string::npos) continue;
    traces.push_back(candidate.trace.front());
    SCOPED_TRACE(traces.back());
    // What is printed is what is replayed.
    const std::string schedule = schedule::to_string(candidate.schedule);
    EXPECT_EQ(schedule::parse_schedule(schedule), candidate.schedule);
    EXPECT_NE(schedule.find("rfactor"), std::string::npos);
    check_candidate(task, t, candidate, 1e-2);
  }
  return traces;
}

size_t count_with(const std::vector<std::string>& texts, const std::string& part) {
  return std::ranges::count_if(texts, [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

// A long sum of few tiles: several split-Ks, by TMA where steps lie next to each other; also of batches and of one axis
// of several.
TEST(ConstructGpu, LongSumsOfFewTilesAreSplitK) {
  const GroupTask product{merged(halves({1, 40, 768}, {1, 72, 768}, DataType::f16())), {"w"}};
  const std::vector<std::string> parts = check_parts(product);
  EXPECT_GE(count_with(parts, "TMA"), 1U);
  EXPECT_GE(count_with(parts, "split-K by 6"), 1U);
  EXPECT_GE(count_with(parts, "split-K by 3"), 1U);
  EXPECT_GE(check_parts({testing::matmul_relu(33, 20, 512), {"w"}}).size(), 2U);
  EXPECT_GE(check_parts({merged(halves({3, 17, 512}, {3, 512, 24}, DataType::bf16())), {}}).size(), 2U);
  EXPECT_GE(check_parts({merged(conv_of_halves({3, 128, 16, 3, 1}, DataType::f16())), {"w"}}).size(), 2U);
}

// Threads of matrix instructions hold few elements of many lines; where lines begin between words, warps store whole
// ones.
TEST(ConstructGpu, OddLinesAreStoredByWarps) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  const auto by_lines = [&](const GroupTask& task) {
    int64_t found = 0;
    for (const Construction& candidate : construct(t.families, task, t.info, nullptr)) {
      if (candidate.trace.front().find("stored by lines") == std::string::npos) continue;
      SCOPED_TRACE(candidate.trace.front());
      EXPECT_EQ(candidate.trace.front().find("in clusters"), std::string::npos);
      EXPECT_EQ(schedule::parse_schedule(schedule::to_string(candidate.schedule)), candidate.schedule);
      check_candidate(task, t, candidate, 1e-2);
      ++found;
    }
    return found;
  };
  EXPECT_GT(by_lines({merged(halves({1, 130, 72}, {1, 65, 72}, DataType::f16())), {"w"}}), 0);
  EXPECT_GT(by_lines({merged(halves({3, 70, 40}, {3, 40, 33}, DataType::bf16())), {}}), 0);
  EXPECT_EQ(by_lines({merged(halves({1, 130, 72}, {1, 66, 72}, DataType::f16())), {"w"}}), 0) << "pairs are words";
  EXPECT_EQ(by_lines({merged(halves({1, 130, 72}, {1, 65, 72}, DataType::f32())), {"w"}}), 0) << "so are f32";
  te::Builder b;  // a bias beyond whose end no tile may read
  const te::Tensor x = b.placeholder("x", DataType::f16(), {100, 64}),
                   w = b.placeholder("w", DataType::f16(), {35, 64});
  const te::Tensor bias = b.placeholder("bias", DataType::f16(), {35});
  const te::Tensor y = b.reduce("y", {100, 35}, {64}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return multiplied(x({i[0], r[0]})) * multiplied(w({i[1], r[0]}));
  });
  const te::Tensor z = b.compute(
      "z", y.shape, [&](const auto& i) { return cast(DataType::f16(), y(i) + cast(DataType::f32(), bias({i[1]}))); });
  EXPECT_GT(by_lines({b.finish("biased", {z}), {"w", "bias"}}), 0);
}

TEST(ConstructGpu, ProductsOfTf32ByMatrixInstructions) {
  const targets::Target t = targets::find_target("cuda:sm_80");
  const auto by_matrix = [&](const te::Program& program) {
    const Construction built = construct(t.families, {program, {}}, t.info, nullptr).front();
    return schedule::to_string(built.schedule).find("\"mma\"") != std::string::npos;
  };
  EXPECT_TRUE(by_matrix(merged(halves({1, 40, 48}, {1, 48, 24}, DataType::f32()))));
  EXPECT_FALSE(by_matrix(testing::matmul_relu(40, 48, 24))) << "f32 that is not rounded";
  check({merged(halves({1, 40, 48}, {1, 48, 24}, DataType::f32())), {}}, "cuda:sm_90a", "contraction", 1e-5);
  check({merged(halves({3, 17, 20}, {3, 9, 20}, DataType::f32())), {"w"}}, "cuda:sm_80", "contraction", 1e-5);
  const GroupTask parts{merged(halves({1, 40, 768}, {1, 72, 768}, DataType::f32())), {"w"}};
  EXPECT_GE(count_with(check_parts(parts), "TMA"), 1U);
}

// What fills the device is not split: neither by long sums nor by short ones.
TEST(ConstructGpu, SumsOfManyTilesStayWhole) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{4096, 4096, 4096}, {1280, 3072, 768}, {128, 3072, 128}}) {
    SCOPED_TRACE(fmt::format("{} x {}, {} steps", m, n, k));
    const GroupTask task{merged(halves({1, m, k}, {1, n, k}, DataType::f16())), {"w"}};
    const Construction first = construct(t.families, task, t.info, nullptr).front();
    EXPECT_EQ(first.trace.front().find("split-K"), std::string::npos) << first.trace.front();
  }
  const GroupTask task{merged(halves({1, 128, 3072}, {1, 768, 3072}, DataType::f16())), {"w"}};
  EXPECT_NE(construct(t.families, task, t.info, nullptr).front().trace.front().find("split-K"), std::string::npos);
}

// One k-block is all there is: TMA brings it, and tiles take room for no other.
TEST(ConstructGpu, ProductsOfOneKBlock) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  const GroupTask task{merged(halves({1, 320, 64}, {1, 128, 64}, DataType::f16())), {"w"}};
  size_t by_tma = 0;
  for (const Construction& candidate : construct(t.families, task, t.info, nullptr)) {
    const std::string schedule = schedule::to_string(candidate.schedule);
    if (schedule.find("\"bulk\"") == std::string::npos) continue;
    EXPECT_NE(schedule.find("r0.0 [1]"), std::string::npos) << schedule;
    if (++by_tma == 1) check_candidate(task, t, candidate, 1e-2);
  }
  EXPECT_GT(by_tma, 0U);
}

TEST(ConstructGpu, ConvolutionsGatherTheirRows) {
  for (const testing::ConvShape& c : {testing::ConvShape{5, 3, 9, 3, 1}, {7, 8, 16, 3, 2}, {9, 16, 32, 1, 1}}) {
    SCOPED_TRACE(fmt::format("size {} channels {} {} kernel {}", c.size, c.channels, c.out_channels, c.kernel));
    check({testing::conv_2d(c), {"w"}}, "cuda:sm_90a", "contraction", 1e-5);
  }
}

// The tiles that are predicted to be best and worst: by instructions of warp groups and of warps.
TEST(ConstructGpu, ConvolutionsOfFilledChannels) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  for (const testing::ConvShape& c :
       {testing::ConvShape{9, 4, 16, 7, 2}, {5, 8, 9, 3, 1}, {4, 48, 8, 3, 1}, {5, 3, 9, 3, 1}}) {
    SCOPED_TRACE(fmt::format("size {} channels {} {} kernel {}", c.size, c.channels, c.out_channels, c.kernel));
    for (const DataType type : {DataType::f16(), DataType::f32()}) {
      const GroupTask task{merged(conv_of_halves(c, type)), {"w"}};
      const std::vector<Construction> built = construct(t.families, task, t.info, nullptr);
      EXPECT_EQ(built.front().family, "contraction");
      for (const Construction* candidate : {&built.front(), &built.back()}) check_candidate(task, t, *candidate, 1e-2);
    }
  }
}

// The matrix is stored row by row, and the threads of a row add up its product with the vector.
TEST(ConstructGpu, ProductsWithFewVectors) {
  for (const int64_t vectors : {1, 4}) {
    const GroupTask task{merged(testing::matmul_relu(vectors, 40, 256)), {"w"}};
    const targets::Target t = targets::find_target("cuda:sm_90a");
    const Construction built = construct(t.families, task, t.info, nullptr).front();
    EXPECT_EQ(built.family, "rows");
    EXPECT_EQ(built.constant_layouts.count("w"), 1U);
    check_candidate(task, t, built, 1e-5);
  }
}

// TMA fills with zeros beyond a tensor's edges, not beyond those of a part of it.
TEST(ConstructGpu, TmaBringsWindowsOfWholeImages) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  const auto in_bulk = [&](int64_t beyond) {
    const te::Program program = merged(conv_of_halves({12, 64, 64, 3, 1}, DataType::f16(), beyond));
    const std::vector<Construction> built = construct(t.families, {program, {"w"}}, t.info, nullptr);
    return std::ranges::count_if(built, [](const Construction& c) {
      return schedule::to_string(c.schedule).find("\"bulk\"") != std::string::npos;
    });
  };
  EXPECT_GT(in_bulk(0), 0);
  EXPECT_EQ(in_bulk(4), 0);
}

// The windows of neighbouring pixels overlap: one block of rows serves all filter positions of a window's row.
TEST(ConstructGpu, FilterPositionsShareTheRowsThatTheyRead) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  const auto shared = [&](const testing::ConvShape& c, DataType type = DataType::f16()) {
    const GroupTask task{merged(conv_of_halves(c, type)), {"w"}};
    int64_t found = 0;
    for (const Construction& candidate : construct(t.families, task, t.info, nullptr)) {
      if (candidate.trace.front().find("one for 3 filter positions") == std::string::npos) continue;
      if (++found == 1) check_candidate(task, t, candidate, 1e-2);
    }
    return found;
  };
  EXPECT_GT(shared({12, 64, 64, 3, 1}), 0);
  EXPECT_GT(shared({7, 128, 48, 3, 1}), 0);
  EXPECT_EQ(shared({12, 64, 64, 3, 2}), 0) << "windows that move by two";
  EXPECT_EQ(shared({12, 64, 64, 1, 1}), 0) << "windows of one filter position";
  EXPECT_GT(shared({12, 32, 64, 3, 1}, DataType::f32()), 0);
}

}  // namespace
}  // namespace tw::construct
