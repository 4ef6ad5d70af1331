// Every family's schedule computes what the te program says: after each loop pass, on odd shapes.
#include <gtest/gtest.h>

#include "te/merge_axes.h"
#include "te/rewrite.h"
#include "tests/construct/construct_check.h"
#include "tests/harness/te_programs.h"

namespace tw::construct {
namespace {

TEST(Construct, MatmulAtOddShapes) {
  const int64_t shapes[][3] = {{1, 1, 1}, {5, 7, 3}, {17, 33, 9}, {29, 70, 13}, {16, 64, 8}, {3, 16, 1}};
  for (const auto& s : shapes) {
    SCOPED_TRACE(fmt::format("m {} n {} k {}", s[0], s[1], s[2]));
    const te::Program program = testing::matmul_relu(s[0], s[1], s[2]);
    for (const char* target : {"cpu:x86-64-v3", "cpu:x86-64-v4"}) {
      check({program, {"w", "bias"}}, target, "contraction");
      check({program, {}}, target, "contraction");
    }
  }
}

TEST(Construct, BlocksOfMatmulAtEveryLevel) {
  const targets::Target t = with_tiny_caches("cpu:x86-64-v3");
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {50, 64});
  const te::Tensor w = b.placeholder("w", DataType::f32(), {64, 88});
  const te::Tensor y = b.reduce("y", {50, 88}, {64}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return x({i[0], r[0]}) * w({r[0], i[1]});
  });
  const te::Program programs[] = {testing::matmul_relu(50, 88, 64), b.finish("matmul", {y})};
  for (const te::Program& program : programs) {
    size_t in_memory = 0;
    size_t column_blocks = 0;
    for (const Construction& built : construct(t.families, {program, {"w"}}, t.info, nullptr)) {
      check_candidate({program, {"w"}}, t, built, 1e-5);
      in_memory += schedule::to_string(built.schedule).find("rfactor y r0 [") != std::string::npos;
      column_blocks += schedule::to_string(built.schedule).find("i1.3") != std::string::npos;
    }
    EXPECT_GT(in_memory, 0u);
    EXPECT_GT(column_blocks, 0u);
  }
}

// A convolution with kernels of one pixel, planes in place: each tile of threads copies the panel of pixels it reads.
TEST(Construct, PanelsAreCopiedWhereTheyAreRead) {
  targets::Target t = targets::find_target("cpu:x86-64-v3");
  t.info.compute_units = 2;
  const auto build = [&](int64_t images) {
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::f32(), {images, 8, 77});
    const te::Tensor w = b.placeholder("w", DataType::f32(), {24, 8});
    const te::Tensor y =
        b.reduce("y", {images, 24, 77}, {8}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
          return x({i[0], r[0], i[2]}) * w({i[1], r[0]});
        });
    return b.finish("pointwise", {y});
  };
  const auto count_inside = [&](const te::Program& program) {
    size_t inside = 0;
    for (const Construction& built : construct(t.families, {program, {"w"}}, t.info, nullptr)) {
      check_candidate({program, {"w"}}, t, built, 1e-5);
      const std::string text = schedule::to_string(built.schedule);
      EXPECT_NE(text.find("cache_read x"), std::string::npos) << text;
      inside += text.find("compute_at x.cache y ") != std::string::npos;
    }
    return inside;
  };
  EXPECT_GT(count_inside(build(6)), 0u);
  EXPECT_EQ(count_inside(build(1)), 0u);  // too few panels to share
}

TEST(Construct, SampledContractionsComputeTheSame) {
  const targets::Target t = with_tiny_caches("cpu:x86-64-v3");
  const GroupTask task{testing::matmul_relu(50, 88, 64), {"w"}};
  const Candidates drawn = *sample_contraction(task, t.info, {30, 7});
  EXPECT_EQ(drawn.size(), 30u);
  for (size_t c = 0; c < drawn.size(); ++c) {
    check_candidate(task, t, drawn[c], 1e-5);
    EXPECT_GT(drawn[c].predicted_ns, 0);
    for (size_t other = 0; other < c; ++other) EXPECT_FALSE(is_same(drawn[c], drawn[other])) << c << ' ' << other;
  }
  const Candidates again = *sample_contraction(task, t.info, {30, 7});
  ASSERT_EQ(again.size(), drawn.size());
  EXPECT_TRUE(std::ranges::equal(again, drawn, is_same));
  EXPECT_FALSE(std::ranges::equal(*sample_contraction(task, t.info, {30, 8}), drawn, is_same));
  EXPECT_FALSE(sample_contraction({testing::softmax(4, 9), {}}, t.info, {30, 7}).ok());
}

TEST(Construct, BlocksOfConvolutionAtEveryLevel) {
  const targets::Target t = with_tiny_caches("cpu:x86-64-v3");
  const te::Program program = testing::conv_2d({11, 24, 40, 3, 1});
  const Candidates candidates = construct(t.families, {program, {"w"}}, t.info, nullptr);
  EXPECT_GT(candidates.size(), 3u);
  for (const Construction& built : candidates) check_candidate({program, {"w"}}, t, built, 1e-5);
}

// Sums in memory between the blocks of their reduction, rows and columns in one block: no loop for threads to share.
TEST(Construct, OneBlockOfRowsAndColumns) {
  targets::Target t = targets::find_target("cpu:x86-64-v3");
  t.info.compute_units = 1;
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {16, 2048});
  const te::Tensor w = b.placeholder("w", DataType::f32(), {2048, 40});
  const te::Tensor y = b.reduce("y", {16, 40}, {2048}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return x({i[0], r[0]}) * w({r[0], i[1]});
  });
  const te::Program program = b.finish("product", {y});
  const Candidates candidates = construct(t.families, {program, {"w"}}, t.info, nullptr);
  size_t whole = 0;
  for (const Construction& built : candidates) {
    check_candidate({program, {"w"}}, t, built, 1e-3);
    const std::string text = schedule::to_string(built.schedule);
    whole += text.find("rfactor y r0 [") != std::string::npos && text.find("parallel y ") == std::string::npos;
  }
  EXPECT_GT(whole, 0u);
}

// Nothing to compute, or sums of no terms.
TEST(Construct, AxesWithoutElements) {
  const int64_t shapes[][3] = {{0, 7, 3}, {5, 0, 3}, {5, 7, 0}, {0, 0, 0}};
  for (const auto& s : shapes) {
    SCOPED_TRACE(fmt::format("m {} n {} k {}", s[0], s[1], s[2]));
    const te::Program program = testing::matmul_relu(s[0], s[1], s[2]);
    check({program, {"w", "bias"}}, "cpu:x86-64-v4", "rows");
  }
  for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{0, 7}, {3, 0}}) {
    SCOPED_TRACE(fmt::format("rows {} n {}", rows, n));
    check({testing::softmax(rows, n), {}}, "cpu:x86-64-v4", "rows");
    check({testing::softmax(rows, n), {}}, "cuda:sm_90a", "point");
  }
}

TEST(Construct, ColumnsWithoutElements) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {2, 0});
  const te::Tensor y = b.reduce("y", {1, 0}, {2}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return x({r[0], i[1]});
  });
  check({b.finish("sum", {y}), {}}, "cpu:x86-64-v3", "rows");
}

TEST(Construct, ElementwiseWithoutElements) {
  for (const int64_t n : {0, 5}) check({testing::broadcast_chain(3, 4 * n, 0), {}}, "cpu:x86-64-v3", "generic");
}

// The output's rows run along another axis than the input's lines: that axis gets an unrolled inner loop, whose loads
// are columns of a block.
TEST(Construct, TransposesUseUpTheirLines) {
  const targets::Target t = targets::find_target("cpu:x86-64-v3");
  const auto text = [&](const te::Program& program) {
    return schedule::to_string(construct(t.families, {program, {}}, t.info, nullptr).front().schedule);
  };
  const std::string crossing = text(testing::transpose(520, 70));
  EXPECT_NE(crossing.find("split y i0 [16]"), std::string::npos) << crossing;
  EXPECT_NE(crossing.find("unroll y i0.1"), std::string::npos) << crossing;
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {520, 70});
  const te::Tensor y = b.compute("y", {520, 70}, [&](const auto& i) { return x({i[0], i[1]}); });
  const std::string copy = text(b.finish("copy", {y}));
  EXPECT_EQ(copy.find("split y i0"), std::string::npos) << copy;
}

TEST(Construct, TransposesOfOddExtents) {
  for (const DataType type : {DataType::f32(), DataType(ScalarType::kI8), DataType::i64()}) {
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{35, 700}, {49, 67}, {33, 9}, {70, 3}, {1, 40}}) {
      SCOPED_TRACE(fmt::format("{} x {} of {}", rows, columns, to_string(type)));
      check({testing::transpose(rows, columns, type), {}}, "cpu:x86-64-v3", "generic");
    }
  }
}

TEST(Construct, MeansOverTheLastAxisRunRowByRow) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {5, 9, 70});
  const te::Tensor sum = b.reduce("sum", {5, 9}, {70}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return x({i[0], i[1], r[0]});
  });
  const te::Tensor mean = b.compute("mean", {5, 9}, [&](const auto& i) { return sum(i) * float_imm(1.0 / 70); });
  check({b.finish("mean", {mean}), {}}, "cpu:x86-64-v3", "rows", 1e-5);
}

TEST(Construct, ConvolutionAtOddShapes) {
  const testing::ConvShape shapes[] = {
      {5, 3, 7, 3, 1}, {7, 5, 17, 3, 2}, {4, 8, 32, 1, 1}, {9, 6, 40, 5, 2}, {1, 1, 1, 1, 1}};
  for (const testing::ConvShape& s : shapes) {
    SCOPED_TRACE(
        fmt::format("h {} c {} oc {} kernel {} stride {}", s.size, s.channels, s.out_channels, s.kernel, s.stride));
    check({testing::conv_2d(s), {"w"}}, "cpu:x86-64-v4", "contraction");
  }
}

TEST(Construct, SoftmaxAtOddShapes) {
  for (const int64_t n : {1, 7, 32, 65, 200}) {
    SCOPED_TRACE(fmt::format("n {}", n));
    check({testing::softmax(3, n), {}}, "cpu:x86-64-v4", "rows", 1e-5);
    check({testing::softmax(1, n), {}}, "cpu:x86-64-v3", "rows", 1e-5);
  }
}

TEST(Construct, EpilogueThatReadsTheSumTwice) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {17, 9});
  const te::Tensor w = b.placeholder("w", DataType::f32(), {9, 37});
  const te::Tensor bias = b.placeholder("bias", DataType::f32(), {37});
  const te::Tensor y = b.reduce("y", {17, 37}, {9}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return x({i[0], r[0]}) * w({r[0], i[1]});
  });
  const te::Tensor z = b.compute("z", {17, 37}, [&](const auto& i) { return y({i[0], i[1]}) + bias({i[1]}); });
  const te::Tensor s = b.compute("s", {17, 37}, [&](const auto& i) {
    return z({i[0], i[1]}) * min(max(z({i[0], i[1]}) + float_imm(3), float_imm(0)), float_imm(6));
  });
  check({b.finish("hard_swish", {s}), {"w"}}, "cpu:x86-64-v4", "contraction");
}

TEST(Construct, DepthwiseConvolution) { check({testing::depthwise(9, 21), {"w"}}, "cpu:x86-64-v4", "contraction"); }

// Channels last with one pixel of padding around, `group` groups of c input and oc output channels.
te::Program padded_grouped_conv(int64_t images, int64_t group, int64_t c, int64_t oc) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {images, 5, 5, group * c});
  const te::Tensor w = b.placeholder("w", DataType::f32(), {group * oc, c, 3, 3});
  const auto inside = [](const Expr& i) { return i >= Expr(1) && i < Expr(6); };
  const te::Tensor pad = b.compute("pad", {images, 7, 7, group * c}, [&](const auto& i) {
    return select(inside(i[1]) && inside(i[2]), x({i[0], i[1] - Expr(1), i[2] - Expr(1), i[3]}), float_imm(0));
  });
  const te::Tensor y = b.reduce("conv", {images, 5, 5, group * oc}, {c, 3, 3}, te::CombinerKind::kSum,
                                [&](const auto& i, const auto& r) {
                                  const Expr channel = group == 1 ? r[0] : floor_div(i[3], Expr(oc)) * Expr(c) + r[0];
                                  return pad({i[0], i[1] + r[1], i[2] + r[2], channel}) * w({i[3], r[0], r[1], r[2]});
                                });
  return b.finish("padded", {y});
}

// Register tiles over the images: every pixel then leaves out its products with padding.
TEST(Construct, ImagesOfABatchShareTheirPadding) {
  const te::Program p = padded_grouped_conv(6, 1, 32, 16);
  check({p, {"w"}}, "cpu:x86-64-v3", "contraction", 1e-5);
  const auto tests = [&](const Construction& built) {
    const te::Program stored = te::apply_layouts(p, built.constant_layouts);
    const std::string text = loop::to_string(schedule::apply(stored, built.schedule));
    size_t found = 0;
    for (size_t at = text.find("(conv.acc.r"); at != std::string::npos; at = text.find("(conv.acc.r", at + 1)) {
      const size_t line = text.rfind('\n', at);
      found += text.substr(line, at - line).find("if (") != std::string::npos;
    }
    return found;
  };
  const targets::Target t = targets::find_target("cpu:x86-64-v3");
  size_t rows = 0;
  size_t pixels = 0;
  for (const Construction& built : construct(t.families, {p, {"w"}}, t.info, nullptr)) {
    rows += tests(built) == 2;
    pixels += tests(built) == 4;
  }
  EXPECT_GT(rows, 0u);
  EXPECT_GT(pixels, 0u);
}

// Blocks of the channels, with every filter position of the window in each; the weights of a block lie together.
TEST(Construct, ReductionBlocksOfAWindowAreItsChannels) {
  targets::Target t = with_tiny_caches("cpu:x86-64-v3");
  t.info.levels[1].capacity_bytes = 32 << 10;
  t.info.levels[2].capacity_bytes = 256 << 10;
  const te::Program p = padded_grouped_conv(2, 1, 32, 16);
  size_t in_memory = 0;
  for (const Construction& built : construct(t.families, {p, {"w"}}, t.info, nullptr)) {
    check_candidate({p, {"w"}}, t, built, 1e-5);
    const std::string text = schedule::to_string(built.schedule);
    const size_t at = text.find("rfactor conv r0 [");
    if (at == std::string::npos) continue;
    ++in_memory;
    const int64_t blocks = std::stoll(text.substr(at + 17));
    const Shape stored = built.constant_layouts.at("w").storage_shape({16, 32, 3, 3});
    EXPECT_EQ(Shape(stored.begin() + 1, stored.begin() + 5), (Shape{blocks, 3, 3, 32 / blocks}));
  }
  EXPECT_GT(in_memory, 0u);
}

TEST(Construct, ChannelsOfAGroupLieTogether) {
  const targets::Target t = targets::find_target("cpu:x86-64-v3");
  for (const auto& [c, together] : {std::pair<int64_t, bool>{16, true}, {4, false}}) {
    const te::Program merged = padded_grouped_conv(2, 3, c, 8);
    const te::Program p = te::apply_layouts(merged, te::mergeable_axes(merged));
    check({p, {"w"}}, "cpu:x86-64-v3", "contraction", 1e-5);
    for (const Construction& built : construct(t.families, {p, {"w"}}, t.info, nullptr))
      EXPECT_EQ(built.constant_layouts.contains("pad"), together) << c << " channels in a group";
  }
}

// Channels last, `group` groups of c input and oc output channels, with bias and a residual input.
te::Program grouped_conv(int64_t group, int64_t c, int64_t oc) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {9, 9, group * c});
  const te::Tensor w = b.placeholder("w", DataType::f32(), {group * oc, c, 3, 3});
  const te::Tensor bias = b.placeholder("bias", DataType::f32(), {group * oc});
  const te::Tensor other = b.placeholder("other", DataType::f32(), {7, 7, group * oc});
  const te::Tensor y =
      b.reduce("conv", {7, 7, group * oc}, {c, 3, 3}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
        return x({i[0] + r[1], i[1] + r[2], floor_div(i[2], Expr(oc)) * Expr(c) + r[0]}) * w({i[2], r[0], r[1], r[2]});
      });
  const te::Tensor z = b.compute("z", {7, 7, group * oc}, [&](const auto& i) {
    return y({i[0], i[1], i[2]}) + bias({i[2]}) + other({i[0], i[1], i[2]});
  });
  return b.finish("grouped", {z});
}

TEST(Construct, GroupedConvolutionReadsItsGroupWithoutDivision) {
  const int64_t shapes[][3] = {{4, 4, 4}, {3, 5, 24}, {2, 16, 40}, {5, 1, 2}, {2, 8, 4}};
  for (const auto& s : shapes) {
    SCOPED_TRACE(fmt::format("{} groups of {} and {} channels", s[0], s[1], s[2]));
    const te::Program p = grouped_conv(s[0], s[1], s[2]);
    const te::Program grouped = te::apply_layouts(p, te::mergeable_axes(p));
    EXPECT_EQ(te::to_string(grouped).find("floordiv"), std::string::npos) << te::to_string(grouped);
    EXPECT_EQ(te::to_string(grouped).find('%'), std::string::npos) << te::to_string(grouped);
    check({grouped, {"w"}}, "cpu:x86-64-v4", "contraction");
    check({grouped, {"w"}}, "cuda:sm_80", s[2] < 8 ? "point" : "contraction", 1e-5);
  }
}

// Three phases of a transposed convolution, channels last. Where they start lies on no line; the first has one filter
// position less.
te::Program conv_of_phases(int64_t c, int64_t oc) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {13, c});
  const te::Tensor w = b.placeholder("w", DataType::f32(), {oc, c, 3, 2});
  const te::Tensor y = b.reduce("conv", {11, 3, oc}, {c, 2}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    const Expr start = select(i[1] < Expr(2), Expr(0), Expr(1));
    const Expr count = select(i[1] < Expr(1), Expr(1), Expr(2));
    return select(r[1] < count, x({i[0] + start + r[1], r[0]}) * w({i[2], r[0], i[1], r[1]}), float_imm(0));
  });
  return b.finish("phases", {y});
}

TEST(Construct, PhasesReadChannelsInTheOrderOfStorage) {
  for (const auto& [c, oc] : {std::pair<int64_t, int64_t>{8, 16}, {5, 21}, {3, 3}}) {
    const te::Program program = conv_of_phases(c, oc);
    for (const char* target : {"cpu:x86-64-v3", "cpu:x86-64-v4"}) {
      check({program, {"w"}}, target, "contraction");
      const targets::Target t = targets::find_target(target);
      const Candidates candidates = construct(t.families, {program, {"w"}}, t.info, nullptr);
      const std::string text = schedule::to_string(candidates.front().schedule);
      EXPECT_NE(text.find(" r1 r0.0 r0.1 "), std::string::npos) << text;
    }
  }
}

TEST(Construct, ReductionOverLeadingAxes) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {5, 7, 21});
  const te::Tensor y = b.reduce("sum", {21}, {5, 7}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return x({r[0], r[1], i[0]});
  });
  const te::Tensor z = b.compute("mean", {21}, [&](const auto& i) { return y({i[0]}) * float_imm(0.5); });
  check({b.finish("mean", {z}), {}}, "cpu:x86-64-v4", "columns");
}

// Channels last, windows of 3 x 3 with padding by one; the padding is inlined.
te::Program max_pool(int64_t h, int64_t c, int64_t stride) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {h, h, c});
  const int64_t oh = (h - 1) / stride + 1;
  const te::Tensor p = b.compute("pad", {h + 2, h + 2, c}, [&](const auto& i) {
    const Expr inside = i[0] >= Expr(1) && i[0] < Expr(h + 1) && i[1] >= Expr(1) && i[1] < Expr(h + 1);
    return select(inside, x({i[0] - Expr(1), i[1] - Expr(1), i[2]}), te::identity_of(te::CombinerKind::kMax, x.type));
  });
  const te::Tensor y = b.reduce("y", {oh, oh, c}, {3, 3}, te::CombinerKind::kMax, [&](const auto& i, const auto& r) {
    return p({i[0] * Expr(stride) + r[0], i[1] * Expr(stride) + r[1], i[2]});
  });
  return b.finish("pool", {y});
}

TEST(Construct, PoolingKeepsItsColumnsInRegisters) {
  const int64_t shapes[][3] = {{7, 64, 1}, {6, 37, 2}, {5, 3, 1}, {9, 200, 2}};
  for (const auto& s : shapes) {
    SCOPED_TRACE(fmt::format("h {} c {} stride {}", s[0], s[1], s[2]));
    check({max_pool(s[0], s[1], s[2]), {}}, "cpu:x86-64-v4", "columns");
    check({max_pool(s[0], s[1], s[2]), {}}, "cpu:x86-64-v3", "columns");
  }
}

TEST(Construct, ArgMaxIsATupleReduction) { check({testing::arg_max(5, 37), {}}, "cpu:x86-64-v4", "rows"); }

TEST(Construct, ElementwiseWithTail) { check({testing::broadcast_chain(3, 5, 19), {}}, "cpu:x86-64-v4", "generic"); }

TEST(Construct, MergedAxesKeepTheMeaning) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {2, 3, 1, 5});
  const te::Tensor y = b.compute("y", {2, 3, 1, 5}, [&](const auto& i) {
    return x({i[0], i[1], i[2], i[3]}) * float_imm(2);
  });
  const te::Program p = b.finish("scale", {y});
  const auto merged = te::mergeable_axes(p);
  EXPECT_EQ(merged.at("y").storage_shape({2, 3, 1, 5}), Shape{30});
  check({te::apply_layouts(p, merged), {}}, "cpu:x86-64-v4", "generic");
}

TEST(Construct, AnAxisOfOneElementJoinsNothing) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {3, 1, 5});
  const te::Tensor s = b.placeholder("s", DataType::f32(), {3, 1, 1});
  const te::Tensor y = b.compute("y", {3, 1, 5}, [&](const auto& i) {
    return x({i[0], i[1], i[2]}) * s({i[0], Expr(0), Expr(0)});
  });
  const te::Program p = b.finish("scale", {y});
  const auto merged = te::mergeable_axes(p);
  EXPECT_EQ(merged.at("y").storage_shape({3, 1, 5}), (Shape{3, 5}));
  EXPECT_EQ(merged.at("s").storage_shape({3, 1, 1}), (Shape{3}));
  check({te::apply_layouts(p, merged), {}}, "cpu:x86-64-v4", "generic");
}

// A kernel of 1 x 3 x 3: its weights still go into panels.
TEST(Construct, ConvolutionWithAKernelAxisOfOneElement) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {1, 4, 7, 7, 5});
  const te::Tensor w = b.placeholder("w", DataType::f32(), {20, 5, 1, 3, 3});
  const te::Tensor y =
      b.reduce("conv", {1, 4, 5, 5, 20}, {5, 1, 3, 3}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
        return x({i[0], i[1] + r[1], i[2] + r[2], i[3] + r[3], r[0]}) * w({i[4], r[0], r[1], r[2], r[3]});
      });
  const te::Program p = te::drop_unit_reductions(b.finish("conv3d", {y}));
  const te::Program grouped = te::apply_layouts(p, te::mergeable_axes(p));
  EXPECT_EQ(grouped.tensor("w").shape, (Shape{20, 5, 3, 3}));
  const targets::Target t = targets::find_target("cpu:x86-64-v4");
  const Construction built = construct(t.families, {grouped, {"w"}}, t.info, nullptr).front();
  EXPECT_EQ(built.constant_layouts.count("w"), 1u) << te::to_string(grouped);
  check({grouped, {"w"}}, "cpu:x86-64-v4", "contraction");
}

}  // namespace
}  // namespace tw::construct
