// Which rows compute a product, why others do not, and in which order they are tried.
#include "templates/rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "runtime/format/error.h"
#include "targets/registry.h"
#include "templates/fit.h"

namespace tw::templates::test {
namespace {

TargetInfo h100() { return targets::find_target("cuda:sm_90a").info; }
TargetInfo a100() { return targets::find_target("cuda:sm_80").info; }

GemmDescriptor gemm(int64_t m, int64_t n, int64_t k) {
  GemmDescriptor p;
  p.m = m, p.n = n, p.k = k;
  return p;
}

GemmDescriptor conv(int64_t channels, int64_t filters, int64_t padding = 1) {
  GemmDescriptor p;
  p.is_conv = true;
  p.images = 8, p.image = {28, 28, 1}, p.channels = channels;
  p.m = 8 * 28 * 28, p.n = filters, p.k = 9 * channels;
  for (size_t d : {0, 1}) p.window[d] = 3, p.out[d] = 28, p.pad[d] = padding;
  return p;
}

std::string best(const GemmDescriptor& product) { return name_of(*ranked(product, h100()).at(0)); }

TEST(Rows, HaveNamesOfTheirOwnThatSayTheirParameters) {
  std::set<std::string> names;
  for (const Row& row : rows()) {
    EXPECT_TRUE(names.insert(name_of(row)).second) << name_of(row);
    EXPECT_FALSE(constraints(row.family).empty());
  }
  EXPECT_TRUE(names.contains("gemm_sm90_128x256x64_cooperative_2x1"));
  EXPECT_TRUE(names.contains("gemm_sm90_128x128x64_stream_k_2x1"));
  EXPECT_TRUE(names.contains("gemm_sm80_128x128x32_2x2_4"));
}

// Limits of the hardware that CUTLASS would only say in pages of template errors, or by spilling registers.
TEST(Rows, FitTheMachine) {
  for (const Row& row : rows()) {
    if (row.family == Family::kGemmSm80 || row.family == Family::kConvSm80) {
      const int warps = row.warps_m * row.warps_n;
      EXPECT_TRUE(warps == 4 || warps == 8) << name_of(row);
      EXPECT_LE(row.stages * (row.tile_m + row.tile_n) * row.tile_k * 2, 163 * 1024) << name_of(row);
      continue;
    }
    EXPECT_EQ(row.tile_n % 16, 0) << name_of(row);
    const bool shares_tile = row.family == Family::kGemmSm90 && !row.pingpong;
    EXPECT_EQ(row.tile_m % (shares_tile ? 128 : 64), 0) << name_of(row);
    EXPECT_LE(row.tile_m * row.tile_n / (shares_tile ? 256 : 128), 208) << name_of(row) << ": sums of a thread";
    EXPECT_FALSE(row.pingpong && row.stream_k) << name_of(row);
  }
}

TEST(Rows, SayWhyTheyDoNotComputeAProduct) {
  const Row& hopper = rows()[0];
  ASSERT_EQ(hopper.family, Family::kGemmSm90);
  EXPECT_EQ(why_declined(hopper, gemm(1280, 768, 768), h100()), "");
  EXPECT_NE(why_declined(hopper, gemm(1280, 768, 46), h100()).find("TMA lines are multiples of 16 bytes"),
            std::string::npos);
  EXPECT_NE(why_declined(hopper, gemm(1280, 1001, 768), h100()).find("16 bytes"), std::string::npos);
  GemmDescriptor ints = gemm(1280, 768, 768);
  ints.operand = DataType::i32();
  EXPECT_NE(why_declined(hopper, ints, h100()).find("f16, bf16 or tf32"), std::string::npos);
  EXPECT_NE(why_declined(hopper, gemm(100, 768, 768), h100()).find("cluster"), std::string::npos);
  EXPECT_NE(why_declined(hopper, conv(64, 64), h100()).find("no windows"), std::string::npos);
  EXPECT_EQ(why_declined(hopper, gemm(1280, 768, 768), a100()), "cuda:sm_80 has no sm_90a");
  const auto warps = std::ranges::find(rows(), Family::kGemmSm80, &Row::family);
  for (const TargetInfo& target : {a100(), h100()}) EXPECT_EQ(why_declined(*warps, gemm(1280, 768, 768), target), "");
  GemmDescriptor f32 = gemm(1280, 768, 768);
  f32.operand = f32.output = DataType::f32();
  EXPECT_NE(why_declined(hopper, f32, h100()).find("steps of the sum next to each other"), std::string::npos);
  f32.b_by_rows = false;
  EXPECT_EQ(why_declined(hopper, f32, h100()), "");
}

// Launches hold sizes of 32 bits; CUTLASS 2.x has a matrix of the batch in each z of the grid.
TEST(Rows, ComputeWhatTheirLaunchesCanSay) {
  const Row& hopper = rows()[0];
  const Row& warps = *std::ranges::find(rows(), Family::kGemmSm80, &Row::family);
  GemmDescriptor many = gemm(512, 512, 64);
  many.batch = 70000;
  EXPECT_EQ(why_declined(hopper, many, h100()), "");
  EXPECT_NE(why_declined(warps, many, h100()).find("65535 matrices"), std::string::npos);
  many.batch = 65535;
  EXPECT_EQ(why_declined(warps, many, h100()), "");
  constexpr int64_t kInt = int64_t{1} << 31;
  for (const Row* row : {&hopper, &warps}) {
    for (const GemmDescriptor& p : {gemm(kInt, 512, 64), gemm(512, kInt, 64), gemm(512, 512, kInt)})
      EXPECT_NE(why_declined(*row, p, h100()).find("extents below 2^31"), std::string::npos) << name_of(*row);
    EXPECT_EQ(why_declined(*row, gemm(kInt - 8, 512, 64), h100()), "") << name_of(*row);
  }
}

// Lines along the other dim of an operand are bound by that dim instead.
TEST(Rows, AskForTheLinesThatThereAre) {
  GemmDescriptor p = gemm(1280, 768, 46);
  p.a_by_rows = false;
  EXPECT_EQ(why_declined(rows()[0], p, h100()), "");
  p.b_by_rows = false;
  EXPECT_NE(why_declined(rows()[0], p, h100()).find("lines of b"), std::string::npos);
}

TEST(Rows, OfConvolutionsWantChannelsInWholeAccesses) {
  const auto has = [](const GemmDescriptor& p, Family family) {
    const bool hopper = architecture_of(family) == "sm_90a";
    const std::vector<const Row*> all = ranked(p, hopper ? h100() : a100());
    return std::ranges::any_of(all, [&](const Row* row) { return row->family == family; });
  };
  EXPECT_TRUE(has(conv(64, 64), Family::kConvSm90));
  EXPECT_TRUE(has(conv(64, 64), Family::kConvSm80));
  EXPECT_FALSE(has(conv(46, 64), Family::kConvSm90));
  EXPECT_TRUE(has(conv(46, 64), Family::kConvSm80)) << "by 4 bytes";
  EXPECT_FALSE(has(conv(45, 64), Family::kConvSm80)) << "nothing copies 2 bytes in the background";
  EXPECT_FALSE(has(conv(64, 64, 200), Family::kConvSm90));
  EXPECT_TRUE(has(conv(64, 64, 200), Family::kConvSm80));
  EXPECT_FALSE(has(conv(64, 64), Family::kGemmSm90));
}

// Large products want large tiles, small ones as many tiles as there are multiprocessors.
TEST(Rows, AreOrderedByWhatTheyMove) {
  const Row& large = *ranked(gemm(8192, 8192, 8192), h100()).at(0);
  EXPECT_GE(large.tile_m * large.tile_n, 128 * 256) << name_of(large);
  const Row& small = *ranked(gemm(512, 512, 1000), h100()).at(0);
  EXPECT_LE(small.tile_m * small.tile_n, 64 * 64) << name_of(small);
  EXPECT_EQ(ranked(gemm(4096, 4096, 4096), h100()).at(0)->family, Family::kGemmSm90) << best(gemm(4096, 4096, 4096));
  for (const Row* row : ranked(gemm(4096, 4096, 4096), a100())) EXPECT_EQ(row->family, Family::kGemmSm80);
}

// Blocks share sums where whole tiles would leave multiprocessors idle for longer than passing sums on takes.
TEST(Rows, ShareSumsWhereTheLastTilesAreFew) {
  const Row& row = *std::ranges::find(rows(), true, &Row::stream_k);
  EXPECT_EQ(why_declined(row, gemm(1280, 768, 3072), h100()), "");
  EXPECT_NE(why_declined(row, gemm(1280, 768, 1016), h100()).find("sums of 1024"), std::string::npos);
  const auto best_shares = [](const GemmDescriptor& p) { return ranked(p, h100()).at(0)->stream_k; };
  EXPECT_TRUE(best_shares(gemm(8192, 8192, 8192))) << "the last of 16 waves is half full";
  EXPECT_FALSE(best_shares(gemm(4096, 4096, 4096))) << "the last of 4 waves is nearly full";
  EXPECT_FALSE(best_shares(gemm(128, 768, 3072))) << "six blocks would add to a tile, one after the other";
}

TEST(Rows, PredictLessForLessWork) {
  for (const Row& row : rows()) {
    if (is_conv(row.family)) continue;
    EXPECT_LT(predicted_cycles(row, gemm(4096, 4096, 1024), h100()),
              predicted_cycles(row, gemm(4096, 4096, 2048), h100()))
        << name_of(row);
  }
}

format::ProblemDescriptor problem(std::string_view text) { return format::parse_problem(text); }

TEST(Fits, TakeABatchWithOneRightSideAsMoreRows) {
  const Result<Fit> shared =
      fit(problem("gemm batch=12 m=128 n=64 k=64 a=x0:f16:64:8192 b=x1:f16:64:0 out=y:f16:64:8192"));
  ASSERT_TRUE(shared.ok()) << shared.reason();
  EXPECT_EQ(shared->product.batch, 1);
  EXPECT_EQ(shared->product.m, 12 * 128);
  const Result<Fit> batch =
      fit(problem("gemm batch=12 m=128 n=64 k=64 a=x0:f16:64:8192 b=x1:f16:64:4096:t out=y:f16:64:8192"));
  ASSERT_TRUE(batch.ok()) << batch.reason();
  EXPECT_EQ(batch->product.batch, 12);
  EXPECT_FALSE(batch->product.b_by_rows);
  EXPECT_FALSE(fit(problem("gemm batch=1 m=128 n=64 k=64 a=x0:f16:80:0 b=x1:f16:64:0 out=y:f16:64:0")).ok());
}

TEST(Fits, AreTheProductAloneWithoutTheirEpilogue) {
  const Result<Fit> whole = fit(problem("gemm batch=1 m=128 n=64 k=64 a=x0:f16:64:0 b=x1:f16:64:0 out=y:f16:64:0"),
                                loop::parse_epilogue("x2:f16:column tanh(x0 + cast<f32>(x1))"));
  ASSERT_TRUE(whole.ok()) << whole.reason();
  const Fit plain = whole->without_epilogue();
  EXPECT_EQ(plain.operands, (std::vector<std::string>{"x0", "x1", "y"}));
  EXPECT_EQ(source_of(plain.instance(rows()[0], "cuda:sm_90a")), source_of({rows()[0]}));
  EXPECT_NE(source_of(whole->instance(rows()[0], "cuda:sm_90a")), source_of({rows()[0]}));
}

TEST(Rows, MoveShorterLinesByWarps) {
  const Row& warps = *std::ranges::find(rows(), Family::kGemmSm80, &Row::family);
  const Row& hopper = rows()[0];
  EXPECT_EQ(why_declined(warps, gemm(1280, 768, 46), h100()), "");
  EXPECT_NE(why_declined(warps, gemm(1280, 768, 45), h100()).find("4, 8 or 16 bytes"), std::string::npos);
  EXPECT_EQ(access_of(gemm(1280, 768, 46)).operands, 4);
  EXPECT_EQ(access_of(gemm(1280, 768, 46)).output, 16);
  EXPECT_EQ(access_of(gemm(1280, 772, 44)).operands, 8);
  EXPECT_EQ(access_of(gemm(1280, 770, 64)).output, 4);
  const Fit k46{gemm(1280, 768, 46), {}, {"a", "b", "y"}};
  const std::string text = source_of(k46.instance(warps, "cuda:sm_90a"));
  EXPECT_NE(text.find("#define TW_OPERAND_ACCESS 4\n#define TW_OUTPUT_ACCESS 16\n"), std::string::npos);
  const auto built = buildable("cuda:sm_90a", DataType::f16());
  EXPECT_TRUE(std::ranges::any_of(built, [&](const Buildable& b) { return b.usual && source_of(b.instance) == text; }))
      << "what groups ask for is what is built";
  EXPECT_EQ(source_of(k46.instance(hopper, "cuda:sm_90a")).find("ACCESS 4"), std::string::npos);
}

TEST(Rows, ReadTf32ByHalfAsManySteps) {
  const Row& hopper = row_named("gemm_sm90_128x128x64_cooperative_2x1");
  GemmDescriptor p = gemm(4096, 4096, 4096);
  const double half = predicted_cycles(hopper, p, h100());
  p.operand = p.output = DataType::f32(), p.b_by_rows = false;
  EXPECT_GT(predicted_cycles(hopper, p, h100()), 1.5 * half);
  EXPECT_EQ(steps_of_tile(hopper, p.operand), 32);
  const std::string text = source_of(Fit{p, {}, {"a", "b", "y"}}.instance(hopper, "cuda:sm_90a"));
  for (const char* line : {"#define TW_TILE_K 32\n", "#define TW_OPERAND cutlass::tfloat32_t\n",
                           "#define TW_OUTPUT float\n", "#define TW_LAYOUT_B ColumnMajor\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line;
  const auto built = buildable("cuda:sm_90a", DataType::f32());
  EXPECT_TRUE(std::ranges::any_of(built, [&](const Buildable& b) { return b.usual && source_of(b.instance) == text; }));
}

TEST(Fits, TakeTf32AndNoOtherF32) {
  const std::string product = "gemm batch=1 m=128 n=64 k=64 a=x0:f32:64:0 b=x1:f32:64:0:t out=y:f32:64:0";
  EXPECT_FALSE(fit(problem(product)).ok());
  const Result<Fit> tf32 = fit(problem(product + " math=tf32"));
  ASSERT_TRUE(tf32.ok()) << tf32.reason();
  EXPECT_EQ(tf32->product.operand, DataType::f32());
  EXPECT_EQ(format::to_string(problem(product + " math=tf32")), product + " math=tf32");
  EXPECT_THROW(problem("gemm batch=1 m=8 n=8 k=8 a=a:f16:8:0 b=b:f16:8:0 out=y:f16:8:0 math=tf32"), format::Error);
}

TEST(Fits, TakeWindowsOfOneToThreeDims) {
  const Result<Fit> deep =
      fit(problem("convolution batch=2 n=128 k=64 groups=1 spatial=8,14,14 window=3,3,3 strides=1,2,2 "
                  "dilations=1,1,1 pads=1,1,1 pads_end=1,0,0 a=x0:f16 b=x1:f16 out=y:f16"));
  ASSERT_TRUE(deep.ok()) << deep.reason();
  EXPECT_EQ(deep->product.dims, 3);
  EXPECT_EQ(deep->product.k, 27 * 64);
  EXPECT_EQ(deep->product.m, 2 * 8 * 7 * 7);
  EXPECT_NE(source_of(deep->instance(row_named("conv_sm90_128x128x64"), "cuda:sm_90a")).find("TW_DIMS 3\n"),
            std::string::npos);
  const Result<Fit> line =
      fit(problem("convolution batch=2 n=128 k=64 groups=1 spatial=40 window=3 strides=1 dilations=1 pads=1 pads_end=1 "
                  "a=x0:f16 b=x1:f16 out=y:f16"));
  ASSERT_TRUE(line.ok()) << line.reason();
  EXPECT_EQ(line->product.dims, 2);
  EXPECT_EQ(line->product.image, (GemmDescriptor::Extents{1, 40, 1}));
  for (const auto& [groups, why] : {std::pair{"4", "groups"}, {"64", "depthwise"}}) {
    const std::string text = fmt::format(
        "convolution batch=2 n=128 k=64 groups={} spatial=40 window=3 strides=1 dilations=1 pads=1 pads_end=1 a=x0:f16 "
        "b=x1:f16 out=y:f16",
        groups);
    EXPECT_NE(fit(problem(text)).reason().find(why), std::string::npos);
  }
}

TEST(Fits, TakeConvolutionsOfSinglePixelsAsProducts) {
  const Result<Fit> one =
      fit(as_product(problem("convolution batch=2 n=128 k=64 groups=1 spatial=14,14 window=1,1 strides=1,1 "
                             "dilations=1,1 pads=0,0 pads_end=0,0 a=x0:f16 b=x1:f16 out=y:f16")),
          loop::parse_epilogue("x2:f16:column x0 + cast<f32>(x1)"));
  ASSERT_TRUE(one.ok()) << one.reason();
  EXPECT_FALSE(one->product.is_conv);
  EXPECT_EQ(one->product.m, 2 * 14 * 14);
  EXPECT_FALSE(one->product.b_by_rows) << "filters lie by columns, whether they are constants or computed";
  EXPECT_EQ(one->operands, (std::vector<std::string>{"x0", "x1", "x2", "y"}));
  const Result<Fit> wide =
      fit(problem("convolution batch=2 n=128 k=64 groups=1 spatial=14,14 window=3,3 strides=2,2 dilations=1,1 pads=1,1 "
                  "pads_end=0,0 a=x0:f16 b=x1:f16 out=y:f16"));
  ASSERT_TRUE(wide.ok()) << wide.reason();
  EXPECT_TRUE(wide->product.is_conv);
  EXPECT_EQ(wide->product.out[0], 7);
  EXPECT_EQ(wide->product.k, 9 * 64);
}

TEST(Fits, TakeTheOperandsOfTheirEpilogues) {
  const auto call = loop::parse_implementation(
      "template gemm_sm90_64x128x64_pingpong_2x1 gemm batch=1 m=128 n=64 k=64 a=x0:f16:64:0 b=x1:f16:64:0 "
      "out=y:f16:64:0 epilogue x2:f16:column,x3:f32:point ((x0 * cast<f32>(x1)) + x2)");
  const auto operands = operands_of(*call.of_template());
  ASSERT_EQ(operands.size(), 5U);
  EXPECT_EQ(operands[3], std::pair(format::Operand{"x2", format::DataType::kF16}, int64_t{64}));
  EXPECT_EQ(operands[4].second, 128 * 64);
  EXPECT_EQ(name_of(row_named(call.of_template()->row)), call.of_template()->row);
  EXPECT_THROW(row_named("gemm_sm90_1x1"), UserError);
  EXPECT_FALSE(fit(problem("gemm batch=1 m=8 n=8 k=8 a=a:f16:8:0 b=b:f16:8:0 out=y:f16:8:0 act=relu")).ok());
}

}  // namespace
}  // namespace tw::templates::test
