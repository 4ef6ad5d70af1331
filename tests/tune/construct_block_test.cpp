// Families for devices whose tiles have threads: every schedule computes what the te program says.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "expr/tf32.h"
#include "support/math.h"
#include "te/merge_axes.h"
#include "te/rewrite.h"
#include "tests/support_code/te_programs.h"
#include "tests/tune/construct_check.h"

namespace tw::tune {
namespace {

// As the driver gives it: axes of one element are none.
te::Program merged(const te::Program& program) {
  const te::Program p = te::drop_unit_reductions(program);
  return te::merge_reductions(te::apply_layouts(p, te::mergeable_axes(p)));
}

TEST(ConstructBlock, TermsOfAProductAreNoRowOfOneElementsOwn) {
  check({merged(testing::matmul_relu(5, 40, 64)), {}}, "cuda:sm_90a", "point", 1e-5);
}

TEST(ConstructBlock, ProductsOfMatrices) {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{8, 8, 1}, {33, 70, 13}, {64, 64, 32}, {130, 9, 40}}) {
    SCOPED_TRACE(fmt::format("{} x {}, {} steps", m, n, k));
    check({testing::matmul_relu(m, n, k), {}}, "cuda:sm_90a", "contraction", 1e-5);
    check({testing::matmul_relu(m, n, k), {"w"}}, "cuda:sm_80", "contraction", 1e-5);
  }
}

// As matrix instructions multiply it: f32 is rounded to tf32.
Expr multiplied(const Expr& x) { return x.type() == DataType::f32() ? to_tf32(x) : cast(DataType::f32(), x); }

// Of 16-bit floats or tf32: steps of matrix instructions, batched, B along its rows or along its columns.
te::Program halves(const Shape& x_shape, const Shape& w_shape, DataType type) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", type, x_shape);
  const te::Tensor w = b.placeholder("w", type, w_shape);
  const bool along = w_shape[1] == x_shape[2];
  const int64_t n = w_shape[along ? 2 : 1];
  const te::Tensor y = b.reduce("y", {x_shape[0], x_shape[1], n}, {x_shape[2]}, te::CombinerKind::kSum,
                                [&](const auto& i, const auto& r) {
                                  const Expr a = x({i[0], i[1], r[0]});
                                  const Expr c = along ? w({i[0], r[0], i[2]}) : w({i[0], i[2], r[0]});
                                  return multiplied(a) * multiplied(c);
                                });
  const te::Tensor z = b.compute("z", y.shape, [&](const auto& i) { return cast(type, y(i)); });
  return b.finish("halves", {z});
}

TEST(ConstructBlock, ProductsByMatrixInstructions) {
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
TEST(ConstructBlock, OperandsAreColumnsOfOneTensor) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f16(), {40, 4, 32});
  const te::Tensor y = b.reduce("y", {2, 40, 40}, {32}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return cast(DataType::f32(), x({i[1], i[0], r[0]})) * cast(DataType::f32(), x({i[2], i[0] + Expr(2), r[0]}));
  });
  const te::Tensor z = b.compute("z", y.shape, [&](const auto& i) { return cast(DataType::f16(), y(i)); });
  check({merged(b.finish("scores", {z})), {}}, "cuda:sm_90a", "contraction", 1e-2);
}

// Constant columns come in the order in which instructions leave them, so that threads store 8 beside each other;
// operands come in boxes, for pairs of tiles.
TEST(ConstructBlock, ProductsOfBoxes) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  const GroupTask task{merged(halves({1, 256, 136}, {1, 96, 136}, DataType::f16())), {"w"}};
  const std::vector<Construction> built = construct(t.families, task, t.info, nullptr);
  std::set<std::string> seen;
  for (const Construction& candidate : built) {
    const std::string schedule = schedule::to_string(candidate.schedule);
    if (schedule.find("\"bulk\"") == std::string::npos) continue;
    const bool pairs = candidate.trace.front().find("pairs of tiles") != std::string::npos;
    if (!seen.insert(pairs ? "pairs" : "alone").second) continue;
    EXPECT_EQ(candidate.constant_layouts.size(), 1U);
    EXPECT_NE(schedule.find(", 8)"), std::string::npos) << "sums are stored 8 columns together";
    check_candidate(task, t, candidate, 1e-2);
  }
  EXPECT_EQ(seen, (std::set<std::string>{"alone", "pairs"}));
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

// Candidates for `task` that sum in parts compute what its program says; returns their first lines of trace.
std::vector<std::string> check_parts(const GroupTask& task) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  std::vector<std::string> traces;
  for (const Construction& candidate : construct(t.families, task, t.info, nullptr)) {
    if (candidate.trace.front().find(" parts") == std::string::npos) continue;
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

// A long sum of few tiles: several numbers of parts, in boxes where steps lie next to each other; also of batches and
// of one axis of several.
TEST(ConstructBlock, LongSumsOfFewTilesAreSummedInParts) {
  const GroupTask product{merged(halves({1, 40, 768}, {1, 72, 768}, DataType::f16())), {"w"}};
  const std::vector<std::string> parts = check_parts(product);
  EXPECT_GE(count_with(parts, "copy engine"), 1U);
  EXPECT_GE(count_with(parts, "in 6 parts"), 1U);
  EXPECT_GE(count_with(parts, "in 3 parts"), 1U);
  EXPECT_GE(check_parts({testing::matmul_relu(33, 20, 512), {"w"}}).size(), 2U);
  EXPECT_GE(check_parts({merged(halves({3, 17, 512}, {3, 512, 24}, DataType::bf16())), {}}).size(), 2U);
  EXPECT_GE(check_parts({merged(conv_of_halves({3, 128, 16, 3, 1}, DataType::f16())), {"w"}}).size(), 2U);
}

TEST(ConstructBlock, ProductsOfTf32ByMatrixInstructions) {
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
  EXPECT_GE(count_with(check_parts(parts), "copy engine"), 1U);
}

// What fills the device is not split: neither by long sums nor by short ones.
TEST(ConstructBlock, SumsOfManyTilesStayWhole) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{4096, 4096, 4096}, {1280, 3072, 768}, {128, 3072, 128}}) {
    SCOPED_TRACE(fmt::format("{} x {}, {} steps", m, n, k));
    const GroupTask task{merged(halves({1, m, k}, {1, n, k}, DataType::f16())), {"w"}};
    const Construction first = construct(t.families, task, t.info, nullptr).front();
    EXPECT_EQ(first.trace.front().find(" parts"), std::string::npos) << first.trace.front();
  }
  const GroupTask task{merged(halves({1, 128, 3072}, {1, 768, 3072}, DataType::f16())), {"w"}};
  EXPECT_NE(construct(t.families, task, t.info, nullptr).front().trace.front().find(" parts"), std::string::npos);
}

// One block of steps is all there is: the copy engine brings it, and tiles take room for no other.
TEST(ConstructBlock, ProductsOfOneBox) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  const GroupTask task{merged(halves({1, 320, 64}, {1, 128, 64}, DataType::f16())), {"w"}};
  size_t boxes = 0;
  for (const Construction& candidate : construct(t.families, task, t.info, nullptr)) {
    const std::string schedule = schedule::to_string(candidate.schedule);
    if (schedule.find("\"bulk\"") == std::string::npos) continue;
    EXPECT_NE(schedule.find("r0.0 [1]"), std::string::npos) << schedule;
    if (++boxes == 1) check_candidate(task, t, candidate, 1e-2);
  }
  EXPECT_GT(boxes, 0U);
}

TEST(ConstructBlock, ConvolutionsGatherTheirRows) {
  for (const testing::ConvShape& c : {testing::ConvShape{5, 3, 9, 3, 1}, {7, 8, 16, 3, 2}, {9, 16, 32, 1, 1}}) {
    SCOPED_TRACE(fmt::format("size {} channels {} {} kernel {}", c.size, c.channels, c.out_channels, c.kernel));
    check({testing::conv_2d(c), {"w"}}, "cuda:sm_90a", "contraction", 1e-5);
  }
}

// The tiles that are predicted to be best and worst: by instructions of warp groups and of warps.
TEST(ConstructBlock, ConvolutionsOfFilledChannels) {
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
TEST(ConstructBlock, ProductsWithFewVectors) {
  for (const int64_t vectors : {1, 4}) {
    const GroupTask task{merged(testing::matmul_relu(vectors, 40, 256)), {"w"}};
    const targets::Target t = targets::find_target("cuda:sm_90a");
    const Construction built = construct(t.families, task, t.info, nullptr).front();
    EXPECT_EQ(built.family, "rows");
    EXPECT_EQ(built.constant_layouts.count("w"), 1U);
    check_candidate(task, t, built, 1e-5);
  }
}

// The copy engine fills with zeros beyond a tensor's edges, not beyond those of a part of it.
TEST(ConstructBlock, TheCopyEngineBringsWindowsOfWholeImages) {
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

// The windows of neighbouring pixels overlap: one block of rows serves all taps of a window's row.
TEST(ConstructBlock, TapsShareTheRowsThatTheyRead) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  const auto shared = [&](const testing::ConvShape& c, DataType type = DataType::f16()) {
    const GroupTask task{merged(conv_of_halves(c, type)), {"w"}};
    int64_t found = 0;
    for (const Construction& candidate : construct(t.families, task, t.info, nullptr)) {
      if (candidate.trace.front().find("one for 3 taps") == std::string::npos) continue;
      if (++found == 1) check_candidate(task, t, candidate, 1e-2);
    }
    return found;
  };
  EXPECT_GT(shared({12, 64, 64, 3, 1}), 0);
  EXPECT_GT(shared({7, 128, 48, 3, 1}), 0);
  EXPECT_EQ(shared({12, 64, 64, 3, 2}), 0) << "windows that move by two";
  EXPECT_EQ(shared({12, 64, 64, 1, 1}), 0) << "windows of one tap";
  EXPECT_GT(shared({12, 32, 64, 3, 1}, DataType::f32()), 0);
}

// Rows that divide among threads lie in registers, others in what a tile's threads share.
TEST(ConstructBlock, SoftmaxByThreads) {
  check({merged(testing::softmax(132 * 4, 32)), {}}, "cuda:sm_90a", "rows", 1e-5);  // four rows a tile
  for (const int64_t n : {7, 32, 65, 128, 200, 384, 1000}) {
    for (const int64_t rows : {2, 3, 8}) {
      SCOPED_TRACE(fmt::format("{} rows of {}", rows, n));
      check({merged(testing::softmax(rows, n)), {}}, "cuda:sm_90a", n < 32 ? "point" : "rows", 1e-5);
    }
  }
}

// Few rows are cut finer, and the vectors that they share are fetched before the rows are summed.
TEST(ConstructBlock, FewRowsFetchWhatTheyShare) {
  for (const int64_t rows : {6, 4000}) {
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::f32(), {rows, 768});
    const te::Tensor scale = b.placeholder("scale", DataType::f32(), {768});
    const te::Tensor sum = b.reduce("sum", {rows}, {768}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
      return x({i[0], r[0]});
    });
    const te::Tensor y = b.compute("y", x.shape, [&](const auto& i) { return (x(i) - sum({i[0]})) * scale({i[1]}); });
    const GroupTask task{b.finish("norm", {y}), {}};
    const targets::Target t = targets::find_target("cuda:sm_90a");
    const Construction built = construct(t.families, task, t.info, nullptr).front();
    EXPECT_EQ(built.family, "rows");
    const loop::Program program = schedule::apply(task.program, built.schedule);
    const std::string text = loop::to_string(program);
    EXPECT_EQ(text.find("scale[") < text.find("sum["), rows == 6) << text;
    if (rows == 6) check_candidate(task, t, built, 1e-4);
  }
}

// Two largest numbers of all elements and the larger one, as of indices that are out of range: one row.
TEST(ConstructBlock, OneRowOfAll) {
  te::Builder b;
  const auto largest = [&](const std::string& name) {
    const te::Tensor x = b.placeholder(name, DataType::i32(), {1, 128});
    return b.reduce("max_" + name, {1, 1}, {1, 128}, te::CombinerKind::kMax, [&](const auto&, const auto& r) {
      return x({r[0], r[1]});
    });
  };
  const te::Tensor p = largest("p"), q = largest("q");
  const te::Tensor y = b.compute("y", {1, 1}, [&](const auto&) {
    return max(p({Expr(0), Expr(0)}), q({Expr(0), Expr(0)}));
  });
  check({merged(b.finish("all", {y})), {}}, "cuda:sm_90a", "rows");
}

// What no tile keeps is computed twice.
TEST(ConstructBlock, LongRowsByThreads) {
  targets::Target t = targets::find_target("cuda:sm_90a");
  for (const int64_t bytes : {16 << 10, 5 << 10}) {
    t.info.levels.front().capacity_bytes = bytes;
    const GroupTask task{merged(testing::softmax(2, 1000)), {}};
    for (const Construction& built : construct(t.families, task, t.info, nullptr)) {
      EXPECT_EQ(built.family, "rows");
      const std::string schedule = schedule::to_string(built.schedule);
      EXPECT_EQ(schedule.find("inline exp") != std::string::npos, bytes < 8 << 10) << schedule;
      check_candidate(task, t, built, 1e-5);
    }
  }
}

// 40,000 elements of 8 bytes do not fit a tile's memory, as those of 4 bytes do: they are read again.
TEST(ConstructBlock, WhatATileKeepsIsCountedInBytes) {
  for (const DataType type : {DataType::f32(), DataType::f64()}) {
    te::Builder b;
    constexpr int64_t kLength = 40000;
    const te::Tensor x = b.placeholder("x", type, {2, kLength});
    const te::Tensor sum = b.reduce("sum", {2}, {kLength}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
      return x({i[0], r[0]});
    });
    const te::Tensor y = b.compute("y", {2, kLength}, [&](const auto& i) { return x(i) / sum({i[0]}); });
    const targets::Target t = targets::find_target("cuda:sm_90a");
    const Construction built = construct(t.families, {b.finish("share", {y}), {}}, t.info, nullptr).front();
    EXPECT_EQ(built.family, "rows");
    const bool kept = schedule::to_string(built.schedule).find("cache_read x") != std::string::npos;
    EXPECT_EQ(kept, type == DataType::f32()) << to_string(type);
  }
}

TEST(ConstructBlock, TransposesThroughSharedMemory) {
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>{64, 96}, {50, 33}, {32, 32}, {9, 200}, {24, 8}, {5, 90}}) {
    SCOPED_TRACE(fmt::format("{} x {}", rows, columns));
    check({testing::transpose(rows, columns), {}}, "cuda:sm_90a", std::min(rows, columns) < 8 ? "point" : "transpose");
  }
}

// A model's image becomes 16-bit, channels last, with channels more.
TEST(ConstructBlock, FilledChannelsAreWrittenLast) {
  for (const int64_t channels : {3, 5, 46, 70}) {
    SCOPED_TRACE(channels);
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::f32(), {2, channels, 77});
    const int64_t filled = channels <= 4 ? 4 : ceil_div(channels, int64_t{8}) * 8;
    const te::Tensor y = b.compute("y", {2, 77, filled}, [&](const auto& i) {
      return select(i[2] < Expr(channels), cast(DataType::f16(), x({i[0], i[2], i[1]})), imm(DataType::f16(), 0));
    });
    check({b.finish("filled", {y}), {}}, "cuda:sm_90a", filled == 4 ? "point" : "transpose");
  }
}

// The same with strides folded, and with zeros beside the rows of pixels: one candidate more, in which each thread has
// whole pixels, as many as are a vector of the image's lines.
TEST(ConstructBlock, PixelsAreGatheredWhole) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  for (const auto& [fold, filled, zeros] :
       {std::tuple<int64_t, int64_t, int64_t>{1, 4, 0}, {1, 3, 0}, {2, 12, 0}, {2, 16, 1}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", fold, filled, zeros));
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::f32(), {2, 3, 5 * fold, (8 - zeros) * fold});
    const te::Tensor y = b.compute("y", {2, 5, 8, filled}, [&, fold = fold, zeros = zeros](const auto& i) {
      const Expr place = floor_div(i[3], Expr(3)), row = i[1] * Expr(fold) + floor_div(place, Expr(fold));
      const Expr pixel = (i[2] - Expr(zeros)) * Expr(fold) + floor_mod(place, Expr(fold));
      const Expr value = cast(DataType::f16(), x({i[0], floor_mod(i[3], Expr(3)), row, pixel}));
      return select(i[3] < Expr(3 * fold * fold) && i[2] >= Expr(zeros), value, imm(DataType::f16(), 0));
    });
    const GroupTask task{b.finish("pixels", {y}), {}};
    const std::vector<Construction> built = construct(t.families, task, t.info, nullptr);
    ASSERT_EQ(built.size(), 2U);
    EXPECT_EQ(built[1].family, "point");
    EXPECT_EQ(built[1].trace.front(), fmt::format("{} points with all of their last axis by a thread", 4 / fold));
    for (const Construction& candidate : built) check_candidate(task, t, candidate, 1e-2);
  }
}

// Fewer threads do more each: that comes first where there are enough of them.
TEST(ConstructBlock, ManyPixelsAreGatheredWholeFirst) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  for (const int64_t images : {1, 32}) {
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::f32(), {images, 3, 112, 112});
    const te::Tensor y = b.compute("y", {images, 112, 112, 3}, [&](const auto& i) {
      return cast(DataType::f16(), x({i[0], i[3], i[1], i[2]}));
    });
    const Construction first = construct(t.families, {b.finish("pixels", {y}), {}}, t.info, nullptr).front();
    EXPECT_EQ(schedule::to_string(first.schedule).find("cache_read") != std::string::npos, images == 32) << images;
  }
}

struct Windows {
  int64_t size = 8, channels = 16, kernel = 3, stride = 1;
  bool pads = true;
  DataType type = DataType::f16();
};

// A depthwise convolution of weights[channel, kernel, kernel], or the maximum of each window, of channels that lie
// last.
te::Program windows(const Windows& s, bool pools) {
  te::Builder b;
  const int64_t before = s.pads ? s.kernel / 2 : 0;
  const int64_t out = (s.size + 2 * before - s.kernel) / s.stride + 1;
  const te::Tensor x = b.placeholder("x", s.type, {2, s.size, s.size, s.channels});
  const te::Tensor w = b.placeholder("w", s.type, {s.channels, s.kernel, s.kernel});
  te::Tensor p = x;
  if (s.pads) {
    const auto inside = [&](const Expr& i) { return i >= Expr(before) && i < Expr(s.size + before); };
    p = b.compute("pad", {2, s.size + 2 * before, s.size + 2 * before, s.channels}, [&](const auto& i) {
      const Expr other = imm(s.type, pools ? -1000 : 0);
      return select(inside(i[1]) && inside(i[2]), x({i[0], i[1] - Expr(before), i[2] - Expr(before), i[3]}), other);
    });
  }
  const te::CombinerKind kind = pools ? te::CombinerKind::kMax : te::CombinerKind::kSum;
  const te::Tensor acc =
      b.reduce("acc", {2, out, out, s.channels}, {s.kernel, s.kernel}, kind, [&](const auto& i, const auto& r) {
        const Expr a = p({i[0], i[1] * Expr(s.stride) + r[0], i[2] * Expr(s.stride) + r[1], i[3]});
        const Expr wide = cast(DataType::f32(), a);
        return pools ? wide : wide * cast(DataType::f32(), w({i[3], r[0], r[1]}));
      });
  const te::Tensor y =
      b.compute("y", acc.shape, [&](const auto& i) { return cast(s.type, max(acc(i), float_imm(0))); });
  return b.finish("windows", {y});
}

// Strips of vectors by a thread: with and without padding, windows that overlap and such that do not, rows of any
// length, windows too large to unroll, and as many channels as fill no vector of eight.
TEST(ConstructBlock, WindowsOverChannelsByThreads) {
  for (const Windows& s : {Windows{8, 16, 3, 1}, Windows{7, 8, 3, 2}, Windows{6, 24, 3, 1}, Windows{8, 8, 2, 2, false},
                           Windows{14, 8, 7, 1, true, DataType::bf16()}, Windows{5, 12, 3, 1, true, DataType::f32()}}) {
    for (const bool pools : {false, true}) {
      SCOPED_TRACE(fmt::format("size {} channels {} kernel {} stride {} pools {}", s.size, s.channels, s.kernel,
                               s.stride, pools));
      check({windows(s, pools), {"w"}}, "cuda:sm_90a", "columns", 1e-3);
    }
  }
}

// The thread loads each pixel of a row of its windows once.
TEST(ConstructBlock, RowsOfWindowsAreKept) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  for (const Construction& c : construct(t.families, {windows({56, 256, 3, 1}, false), {"w"}}, t.info, nullptr))
    EXPECT_NE(schedule::to_string(c.schedule).find("compute_at pad acc r0 \"register\""), std::string::npos);
}

// Means of whole images, with as few channels as leave units idle: narrower vectors, and terms in two loops.
TEST(ConstructBlock, MeansOfImagesByThreads) {
  for (const Shape& kept : {Shape{2, 24}, Shape{40}}) {
    te::Builder b;
    Shape shape = kept;
    shape.insert(shape.end() - 1, 200);
    const te::Tensor x = b.placeholder("x", DataType::f16(), shape);
    const te::Tensor acc = b.reduce("acc", kept, {200}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
      std::vector<Expr> at(i.begin(), i.end());
      at.insert(at.end() - 1, r[0]);
      return cast(DataType::f32(), x(at));
    });
    const te::Tensor y =
        b.compute("y", kept, [&](const auto& i) { return cast(DataType::f16(), acc(i) * float_imm(1.0 / 200)); });
    check({b.finish("mean", {y}), {}}, "cuda:sm_90a", "columns", 1e-3);
  }
}

TEST(ConstructBlock, MeansByThreads) {
  for (const int64_t n : {33, 256, 6000}) {
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::f32(), {3, 4, n});
    const te::Tensor sum = b.reduce("sum", {3, 4}, {n}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
      return x({i[0], i[1], r[0]});
    });
    const te::Tensor mean = b.compute("mean", {3, 4}, [&](const auto& i) {
      return sum({i[0], i[1]}) * imm(DataType::f32(), 1.0 / n);
    });
    check({merged(b.finish("mean", {mean})), {}}, "cuda:sm_90a", "rows", 1e-5);
  }
}

}  // namespace
}  // namespace tw::tune
