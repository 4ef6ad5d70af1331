// Texts of instances, and what a host program's answers mean.
#include "templates/source.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "templates/fit.h"
#include "templates/host.h"

namespace tw::templates::test {
namespace {

const Row& row_named(std::string_view name) {
  return *std::ranges::find_if(rows(), [&](const Row& row) { return name_of(row) == name; });
}
const Row& hopper() { return row_named("gemm_sm90_128x128x64_pingpong_2x1"); }
const Row& ampere() { return row_named("gemm_sm80_64x64x64_2x2_5"); }

Epilogue epilogue_of(const std::string& rest) {
  return make_epilogue(format::parse_problem("gemm batch=1 m=8 n=8 k=8 a=x0:f16:8:0 b=x1:f16:8:0 " + rest));
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(Source, HasTheRowsParameters) {
  const std::string text = source_of({hopper()});
  for (const char* line : {"#define TW_TILE_M 128\n", "#define TW_CLUSTER_M 2\n", "#define TW_PINGPONG 1\n",
                           "#define TW_OPERAND cutlass::half_t\n", "#define TW_TENSOR void\n",
                           "#define TW_LAYOUT_B RowMajor\n", "int main()", "tw_template"})
    EXPECT_TRUE(has(text, line)) << line;
  Instance bf16{ampere(), DataType::bf16(), DataType::f32()};
  bf16.b_by_rows = false;
  const std::string other = source_of(bf16);
  for (const char* line : {"#define TW_STAGES 5\n", "#define TW_OPERAND cutlass::bfloat16_t\n",
                           "#define TW_OUTPUT float\n", "#define TW_LAYOUT_B ColumnMajor\n"})
    EXPECT_TRUE(has(other, line)) << line;
}

// Each epilogue is another text, so another entry of the library; one and the same is the same text.
TEST(Source, HasTheEpilogueAsCode) {
  std::vector<std::string> texts;
  for (const char* act : {"", " act=relu", " act=clip:0:6", " act=leaky_relu:0.1", " act=sigmoid", " act=tanh",
                          " act=silu", " act=gelu", " act=gelu_tanh", " act=hard_swish", " act=softplus"}) {
    Instance instance{hopper()};
    instance.epilogue = epilogue_of(std::string("bias=x2:f16 out=y:f16:8:0") + act);
    texts.push_back(source_of(instance));
    EXPECT_EQ(texts.back(), source_of(instance));
    EXPECT_TRUE(has(texts.back(), "float tw_epilogue(float x0_f32, float x1_f32)")) << act;
    EXPECT_TRUE(has(texts.back(), "fusion::Sm90AccFetch, Vector<cutlass::half_t>\n")) << act;
  }
  std::ranges::sort(texts);
  EXPECT_EQ(std::ranges::unique(texts).size(), 0U);
}

TEST(Source, FetchesOperandsInTheOrderOfTheExpression) {
  Instance instance{hopper()};
  instance.epilogue = epilogue_of("bias=x2:f32 residual=x3:f16 out=y:f16:8:0 act=relu");
  const std::string text = source_of(instance);
  EXPECT_TRUE(has(text, "Sm90AccFetch, Vector<float>, fusion::Sm90SrcFetch<Tensor>\n"));
  EXPECT_TRUE(has(text, "#define TW_TENSOR cutlass::half_t\n"));
  instance.row = ampere();
  EXPECT_TRUE(has(source_of(instance), "#define TW_EPILOGUE_OPERANDS acc[i], vector[i], tensor[i]\n"));
}

TEST(Source, SaysWhichEpiloguesARowCannotHave) {
  EXPECT_EQ(refusal(hopper(), epilogue_of("bias=x2:f16 residual=x3:f16 out=y:f16:8:0"), DataType::f16()), "");
  const Epilogue two = epilogue_of("residual=x3:f16 late_residual=x4:f16 out=y:f16:8:0 act=relu");
  EXPECT_NE(refusal(hopper(), two, DataType::f16()), "");
  const Epilogue wide = epilogue_of("residual=x3:f32 out=y:f16:8:0");
  EXPECT_EQ(refusal(hopper(), wide, DataType::f16()), "");
  EXPECT_NE(refusal(ampere(), wide, DataType::f16()), "");
}

TEST(Source, IsOfClassesThatProblemsHave) {
  const std::vector<EpilogueClass> classes = epilogue_classes(DataType::f16(), DataType::f16());
  Instance a{hopper()}, b{hopper()};
  a.epilogue = classes.at(3).epilogue;
  b.epilogue = epilogue_of("bias=x7:f16 residual=x3:f16 out=y:f16:8:0 act=relu");
  EXPECT_EQ(source_of(a), source_of(b));
}

// ---- Answers. Regions of operands are 2^40 bytes, the first ones at 2^44 and 2^45.

std::string hex_of(std::initializer_list<uint64_t> words) {
  std::string text;
  for (uint64_t word : words) {
    for (int byte = 0; byte < 8; ++byte) text += fmt::format("{:02x}", word >> 8 * byte & 255);
  }
  return text;
}

class LaunchTest : public ::testing::Test {
 protected:
  // The launch of answers with these parameters in the two worlds.
  Result<Launch> find(const std::string& first, const std::string& second, const std::string& maps = "") {
    Product product;
    product.m = product.n = product.k = 64;
    return find_launch(
        {hopper()}, product, 132, [&, world = 0](const std::string& line) mutable -> Result<std::string> {
          asked_.push_back(line);
          return fmt::format("grid 4 1 1\nblock 384 1 1\ncluster 2 1 1\nshared 1000\nworkspace 0\nparams {}\n{}end\n",
                             world++ == 0 ? first : second, maps);
        });
  }
  std::vector<std::string> asked_;
  static constexpr uint64_t kOne = uint64_t{1} << 44, kTwo = uint64_t{1} << 45, kRegion = uint64_t{1} << 40;
};

TEST_F(LaunchTest, FindsAddressesByWhatDiffers) {
  const Result<Launch> launch = find(hex_of({7, kOne + kRegion + 24, kOne}), hex_of({7, kTwo + kRegion + 24, kTwo}));
  ASSERT_TRUE(launch.ok()) << launch.reason();
  const format::CudaStep& step = launch->step;
  EXPECT_EQ(step.grid[0], 4);
  EXPECT_EQ(step.block[0], 384);
  EXPECT_EQ(step.shared_bytes, 1000);
  EXPECT_EQ(step.relocations, (std::vector<format::Relocation>{{8, 1, 24}, {16, 0, 0}}));
  ASSERT_EQ(step.params.size(), 24U);
  EXPECT_EQ(step.params[0], 7);
  EXPECT_TRUE(std::ranges::all_of(step.params.begin() + 8, step.params.end(), [](uint8_t b) { return b == 0; }));
  EXPECT_TRUE(asked_.at(0).starts_with("64 64 64 1 4096 4096 4096 4096 ")) << asked_.at(0);
}

TEST_F(LaunchTest, RefusesWhatDependsOnAddressesOtherwise) {
  EXPECT_FALSE(find(hex_of({kOne >> 1}), hex_of({kTwo >> 1})).ok());
  EXPECT_FALSE(find(hex_of({kOne}), hex_of({kTwo + 8})).ok());
  EXPECT_FALSE(find(hex_of({kOne}), hex_of({kTwo + kRegion})).ok());
}

TEST_F(LaunchTest, ReadsDescriptionsOfTensors) {
  const std::string params(2 * 256, '5');
  const auto map = [&](int64_t stride, int swizzle) {
    return fmt::format("map 128 tiled 6 3 {} 768 1280 1 {} 1966080 64 128 1 1 1 1 0 {} 2 0\n", kOne, stride, swizzle);
  };
  const Result<Launch> launch = find(params, params, map(1536, 3));
  ASSERT_TRUE(launch.ok()) << launch.reason();
  const format::TensorMap expected = {128, 0, format::DataType::kF16, {1, 1280, 768}, {1, 128, 64}};
  EXPECT_EQ(launch->step.tensor_maps, std::vector<format::TensorMap>{expected});
  EXPECT_FALSE(find(params, params, map(1600, 3)).ok()) << "lines with gaps";
  EXPECT_FALSE(find(params, params, map(1536, 2)).ok()) << "another swizzle than that of its lines";
}

TEST_F(LaunchTest, PassesOnWhyATemplateRefuses) {
  const Result<Launch> launch = find_launch({hopper()}, {}, 132, [](const std::string&) -> Result<std::string> {
    return std::string("refused lines are not aligned\nend\n");
  });
  ASSERT_FALSE(launch.ok());
  EXPECT_EQ(launch.reason(), "lines are not aligned");
}

}  // namespace
}  // namespace tw::templates::test
