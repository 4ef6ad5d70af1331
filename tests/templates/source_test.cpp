// Texts of instances, and what a host program's answers mean.
#include "templates/source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "templates/fit.h"
#include "templates/host.h"

namespace tw::templates::test {
namespace {

const Row& hopper() { return row_named("gemm_sm90_128x128x64_pingpong_2x1"); }
const Row& ampere() { return row_named("gemm_sm80_64x64x64_2x2_5"); }

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
  for (const std::string value : {"y", "max(y, 0:f32)", "max(min(y, 6:f32), 0:f32)", "y * 0.5:f32", "sigmoid(y)",
                                  "tanh(y) * y", "y * sigmoid(y)", "softplus(y)", "select(y < 1:f32, y, exp(y))"}) {
    std::string text = value;
    for (size_t at = text.find('y'); at != text.npos; at = text.find('y')) text.replace(at, 1, "(x0 + cast<f32>(x1))");
    Instance instance{hopper()};
    instance.epilogue = loop::parse_epilogue("x2:f16:column " + text);
    texts.push_back(source_of(instance));
    EXPECT_EQ(texts.back(), source_of(instance));
    EXPECT_TRUE(has(texts.back(), "float tw_epilogue(float x0_f32, float x1_f32)")) << value;
    EXPECT_TRUE(has(texts.back(), "fusion::Sm90AccFetch, Vector<cutlass::half_t>\n")) << value;
  }
  std::ranges::sort(texts);
  EXPECT_EQ(std::ranges::unique(texts).size(), 0U);
}

const char* const kBiasAndResidual = "x2:f32:column,x3:f16:point max((x0 + x1) + cast<f32>(x2), 0:f32)";

TEST(Source, FetchesOperandsInTheOrderOfTheExpression) {
  Instance instance{hopper()};
  instance.epilogue = loop::parse_epilogue(kBiasAndResidual);
  const std::string text = source_of(instance);
  EXPECT_TRUE(has(text, "Sm90AccFetch, Vector<float>, fusion::Sm90SrcFetch<Tensor>\n"));
  EXPECT_TRUE(has(text, "#define TW_TENSOR cutlass::half_t\n"));
  instance.row = ampere();
  EXPECT_TRUE(has(source_of(instance), "#define TW_EPILOGUE_OPERANDS acc[i], vector[i], tensor[i]\n"));
}

TEST(Source, SaysWhichEpiloguesARowCannotHave) {
  EXPECT_EQ(why_declined(hopper(), loop::parse_epilogue(kBiasAndResidual), DataType::f16()), "");
  const Epilogue two = loop::parse_epilogue("x3:f16:point,x4:f16:point (x0 * cast<f32>(x1)) + cast<f32>(x2)");
  EXPECT_NE(why_declined(hopper(), two, DataType::f16()), "");
  const Epilogue wide = loop::parse_epilogue("x3:f32:point x0 + x1");
  EXPECT_EQ(why_declined(hopper(), wide, DataType::f16()), "");
  EXPECT_NE(why_declined(ampere(), wide, DataType::f16()), "");
}

TEST(Source, IsOfClassesThatGroupsHave) {
  const std::vector<EpilogueClass> classes = epilogue_classes(DataType::f16());
  Instance a{hopper()}, b{hopper()};
  a.epilogue = classes.at(3).epilogue;
  b.epilogue = loop::parse_epilogue("x7:f16:column,x3:f16:point max(((x0 + cast<f32>(x1)) + cast<f32>(x2)), 0:f32)");
  EXPECT_EQ(source_of(a), source_of(b));
  EXPECT_EQ(classes.back().name, kWideClass);
  EXPECT_EQ(classes.back().output, DataType::f32());
}

TEST(Source, OfWarpsIsCompiledForLaterTargetsToo) {
  const auto asks = [](const Instance& instance, std::string_view option) {
    return std::ranges::count(compiler_options(instance), option) == 1;
  };
  Instance instance{ampere()};
  EXPECT_TRUE(asks(instance, "arch=compute_90a,code=sm_90a"));
  instance.architecture = "sm_80";
  EXPECT_TRUE(asks(instance, "arch=compute_80,code=[sm_80,compute_80]"));
}

// ---- Answers.

Result<Launch> launch_of(const std::string& answer) {
  return find_launch({hopper()}, {}, 132, [&](const std::string&) -> Result<std::string> { return answer; });
}

TEST(Launch, IsReadFromAnAnswer) {
  const std::string launch = "launch 4 1 1 384 1 1 1000 64\n", params = "params 0700ff\n";
  const std::string rest = "relocation 8 1 24\nmap 128 0 bf16 3 1 1280 768 1 128 64\nend\n";
  const Result<Launch> read = launch_of(launch + params + rest);
  ASSERT_TRUE(read.ok()) << read.reason();
  EXPECT_EQ(read->workspace_bytes, 64);
  EXPECT_EQ(read->step.grid[0], 4);
  EXPECT_EQ(read->step.block[0], 384);
  EXPECT_EQ(read->step.shared_bytes, 1000);
  EXPECT_EQ(read->step.params, (std::vector<uint8_t>{7, 0, 255}));
  EXPECT_EQ(read->step.relocations, (std::vector<format::Relocation>{{8, 1, 24}}));
  const format::TensorMap map = {128, 0, format::DataType::kBF16, {1, 1280, 768}, {1, 128, 64}, {}};
  EXPECT_EQ(read->step.tensor_maps, std::vector<format::TensorMap>{map});
  const Result<Launch> windows =
      launch_of(launch + params + "map 0 1 f16 4 2 28 28 64 128 1 1 64 14 28 2 1 1 1\nend\n");
  ASSERT_TRUE(windows.ok()) << windows.reason();
  EXPECT_EQ(windows->step.tensor_maps.at(0).windows, (format::Windows{{14, 28}, {2, 1}, {1, 1}}));
  for (const std::string& wrong : {launch + "end\n", params + "end\n", launch + params + "relocation 8 1\nend\n",
                                   launch + params + "map 128 0 f12 1 8 8\nend\n",
                                   launch + params + "map 128 0 f16 4 2 28 28 64 128 1 1 64 14 28 2 1 1\nend\n",
                                   launch + params + "map 128 0 f16 6 1 1 1 1 1 1 1 1 1 1 1 1\nend\n"})
    EXPECT_FALSE(launch_of(wrong).ok()) << wrong;
}

// 60 tiles of 128 x 128 sums, and for each the barriers of two warp groups, in lines of 128 bytes.
TEST(Launch, OfSharedSumsBeginsWithItsBarriersAtZero) {
  const Row row = {Family::kGemmSm90, 128, 128, 64, 2, 1, false, true};
  const auto launch = [&](int64_t bytes) {
    return find_launch({row}, {}, 132, [&](const std::string&) -> Result<std::string> {
      return "launch 4 1 1 384 1 1 1000 " + std::to_string(bytes) + "\nparams 07\nend\n";
    });
  };
  EXPECT_EQ(launch(60 * 65536 + 512)->zero_bytes, 512);
  EXPECT_EQ(launch(0)->zero_bytes, 0);
  EXPECT_FALSE(launch(60 * 65536 + 384).ok());
}

// What tests/templates/host/main.cpp makes of each case, asked as the compiler asks templates.
class HostTest : public ::testing::Test {
 protected:
  Result<Launch> ask(int which) {
    GemmDescriptor product;
    product.m = which, product.n = product.k = 64;
    return find_launch({hopper()}, product, 132, [&](const std::string& line) { return host_.ask(line); });
  }
  std::string refusal_of(int which) {
    const Result<Launch> launch = ask(which);
    return launch.ok() ? "" : launch.reason();
  }
  HostProgram host_ =
      HostProgram::start(std::filesystem::read_symlink("/proc/self/exe").parent_path() / "template_host").value();
};

TEST_F(HostTest, FindsAddressesByWhatDiffers) {
  const Result<Launch> launch = ask(0);
  ASSERT_TRUE(launch.ok()) << launch.reason();
  const format::CudaStep& step = launch->step;
  EXPECT_EQ(step.grid[0], 4);
  EXPECT_EQ(step.relocations, (std::vector<format::Relocation>{{8, 1, 24}, {16, 0, 0}}));
  const format::TensorMap map = {64, 2, format::DataType::kF16, {1, 1280, 768}, {1, 128, 64}, {}};
  EXPECT_EQ(step.tensor_maps, std::vector<format::TensorMap>{map});
  ASSERT_EQ(step.params.size(), 256U);
  EXPECT_EQ(step.params[0], 7);
  EXPECT_EQ(step.params[192], 3);
  EXPECT_EQ(std::ranges::count(step.params, 0), 254) << "what is put there later, and padding";
}

// Every second position of 28 and one before them, in a tensor with an element of zeros on each side.
TEST_F(HostTest, FindsWindows) {
  const Result<Launch> launch = ask(8);
  ASSERT_TRUE(launch.ok()) << launch.reason();
  const format::TensorMap map = {
      64, 2, format::DataType::kF16, {2, 28, 28, 64}, {128, 1, 1, 64}, {{14, 28}, {2, 1}, {1, 1}}};
  EXPECT_EQ(launch->step.tensor_maps, std::vector<format::TensorMap>{map});
}

TEST_F(HostTest, RefusesWhatArtefactsDoNotHave) {
  const char* reasons[] = {"lines are not aligned",
                           "parameter 0 depends on addresses, but is none",
                           "parameter 16 depends on addresses, but is none",
                           "a tensor that is not compact",
                           "a description of a tensor that artefacts do not have",
                           "a tensor that is no operand",
                           "a tensor that begins inside of a buffer"};
  for (int which = 1; const char* reason : reasons) EXPECT_EQ(refusal_of(which++), reason);
}

}  // namespace
}  // namespace tw::templates::test
