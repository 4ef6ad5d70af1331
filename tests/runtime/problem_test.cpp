// What others are asked to compute, as text: what prints parses back, and nothing else parses.
#include "runtime/format/problem.h"

#include <gtest/gtest.h>

#include "runtime/format/error.h"

namespace tw {
namespace {

using format::ProblemDescriptor;

const char* const kGemm =
    "gemm batch=2 m=8 n=6 k=4 a=x0:f16:4:32 b=x1:f16:4:0:t bias=x2:f16 residual=x3:f16 out=y:f16:6:48 act=clip:-1.5:6";
const char* const kConvolution =
    "convolution batch=2 n=64 k=32 groups=1 spatial=14,15 window=3,1 strides=2,1 dilations=1,1 pads=1,0 pads_end=0,0 "
    "a=x0:bf16 b=x1:bf16 late_residual=x2:bf16 out=y:bf16 act=silu";

const char* const kAttention =
    "attention batch=2 m=5 n=16 k=8 groups=3 keys=7 a=x0:f16:24:120:8:0 b=x1:f16:48:336:8:24 "
    "residual=x3:f32:0:7:0:0 values=x2:f16:48:336:16:0 out=y:f16:48:240:16:0 act=softmax:0.125";

TEST(ProblemDescriptor, TextComesBack) {
  std::string causal = kAttention;
  causal.insert(causal.find("act="), "mask=causal ");
  for (const std::string& text : {std::string(kGemm), std::string(kConvolution), std::string(kAttention), causal}) {
    const ProblemDescriptor p = format::parse_problem(text);
    EXPECT_EQ(format::to_string(p), text);
    EXPECT_EQ(format::parse_problem(format::to_string(p)), p);
  }
  const std::string call = std::string("cublaslt 130100 2 ") + kGemm;
  const format::LibraryCall parsed = format::parse_library_call(call);
  EXPECT_EQ(parsed.library, "cublaslt");
  EXPECT_EQ(parsed.version, 130100);
  EXPECT_EQ(parsed.algorithm, 2);
  EXPECT_EQ(format::to_string(parsed), call);
  const std::string by_engine = std::string("cudnn 91900 34,2=5,14=-1 ") + kConvolution;
  const format::LibraryCall engine = format::parse_library_call(by_engine);
  EXPECT_EQ(engine.algorithm, 34);
  EXPECT_EQ(engine.knobs, (std::vector<std::pair<int64_t, int64_t>>{{2, 5}, {14, -1}}));
  EXPECT_EQ(format::to_string(engine), by_engine);
}

TEST(ProblemDescriptor, LibrariesRefuseWhatTheyDoNotCompute) {
  const auto refusal = [](const std::string& way, std::string text, const std::string& from = "",
                          const std::string& to = "") {
    if (!from.empty()) text.replace(text.find(from), from.size(), to);
    return format::why_declined(format::parse_library_call(way + text));
  };
  EXPECT_EQ(refusal("cudnn 91900 34,2=5 ", kConvolution), "");
  EXPECT_EQ(refusal("cudnn 91900 34 ", kGemm), "neither convolution nor attention but a product of matrices");
  EXPECT_EQ(refusal("cudnn 91900 2,24=7 ", kAttention), "");
  const std::string lies = " is of another type, shared by heads, or does not lie by 8 elements";
  EXPECT_EQ(refusal("cudnn 91900 2 ", kAttention, "x1:f16", "x1:bf16"), "x1" + lies);
  EXPECT_EQ(refusal("cudnn 91900 2 ", kAttention, "x1:f16:48:336:8:24", "x1:f16:48:336:8:20"), "x1" + lies);
  EXPECT_EQ(refusal("cudnn 91900 2 ", kAttention, "x2:f16:48:336:16", "x2:f16:48:336:0"), "x2" + lies);
  EXPECT_EQ(refusal("cudnn 91900 2 ", kAttention, "k=8", "k=4"), "x0" + lies);
  EXPECT_EQ(refusal("cudnn 91900 2 ", kAttention, "x3:f32", "x3:i32"), "x3 is of another type");
  std::string wide = kAttention;
  for (size_t at = wide.find("f16"); at != std::string::npos; at = wide.find("f16")) wide.replace(at, 3, "f32");
  EXPECT_EQ(refusal("cudnn 91900 2 ", wide), "operands of other types than f16 or bf16");
  EXPECT_EQ(refusal("cublaslt 130100 0 ", kAttention), "no product of matrices but attention");
  EXPECT_EQ(refusal("cudnn 91900 34 ", kConvolution, "silu", "hard_swish"), "it has no such activation");
  EXPECT_EQ(refusal("cudnn 91900 34 ", kConvolution, "silu", "clip:-1:6"), "it has no such activation");
  EXPECT_EQ(refusal("cudnn 91900 34 ", kConvolution, "silu", "clip:0:6"), "");
  EXPECT_EQ(refusal("cudnn 91900 34 ", kConvolution, "x1:bf16", "x1:f16"), "operands of other types than f16 or bf16");
  EXPECT_EQ(refusal("cudnn 91900 34 ", kConvolution, "x2:bf16", "x2:i32"), "x2 is of another type");
  EXPECT_EQ(refusal("cublaslt 130100 0 ", kConvolution), "no product of matrices but convolution");
  EXPECT_EQ(refusal("cublaslt 130100 0 ", kGemm, "act=clip:-1.5:6", "act=relu"), "");
  EXPECT_EQ(refusal("cublaslt 130100 100 ", kGemm, "act=clip:-1.5:6", "act=relu"),
            "its algorithms are the first hundred");
  EXPECT_EQ(refusal("cublaslt 130100 0,1=2 ", kGemm, "act=clip:-1.5:6", "act=relu"),
            "its algorithms are the first hundred");
  EXPECT_EQ(refusal("miopen 1 0 ", kConvolution), "an unknown library");
}

TEST(ProblemDescriptor, NumbersMeanWhatTheySay) {
  const ProblemDescriptor gemm = format::parse_problem(kGemm);
  EXPECT_EQ(gemm.parameters, (std::vector<double>{-1.5, 6}));
  EXPECT_TRUE(gemm.b.transposed);
  EXPECT_EQ(gemm.operands().size(), 5U);
  EXPECT_EQ(gemm.span(gemm.a), 32 + 7 * 4 + 4);
  EXPECT_EQ(gemm.span(gemm.b), 5 * 4 + 4);
  EXPECT_EQ(gemm.span(gemm.bias), 6);
  EXPECT_EQ(gemm.span(gemm.residual), 48 + 7 * 6 + 6);
  const ProblemDescriptor convolution = format::parse_problem(kConvolution);
  EXPECT_EQ(convolution.out_spatial(), (std::vector<int64_t>{7, 15}));
  EXPECT_EQ(convolution.span(convolution.out), 2 * 7 * 15 * 64);
  EXPECT_EQ(convolution.span(convolution.b), 64 * 3 * 32);
  const ProblemDescriptor attention = format::parse_problem(kAttention);
  EXPECT_EQ(attention.operands().size(), 5U);
  EXPECT_EQ(attention.span(attention.a), 120 + 2 * 8 + 4 * 24 + 8);
  EXPECT_EQ(attention.span(attention.b), 336 + 2 * 8 + 24 + 6 * 48 + 8);
  EXPECT_EQ(attention.span(attention.residual), 7 + 7);
  EXPECT_EQ(attention.span(attention.out), 240 + 2 * 16 + 4 * 48 + 16);
}

// Each is one of the texts above with a part changed.
struct Wrong {
  const char* text;
  const char* from;
  const char* to;
};
const Wrong kWrong[] = {
    {kGemm, "gemm", "gem"},
    {kGemm, "m=8 ", ""},
    {kGemm, "m=8", "m=0"},
    {kGemm, "m=8", "m=08"},
    {kGemm, "m=8", "m=-8"},
    {kGemm, "m=8", "m=8 m=8"},
    {kGemm, "m=8", "m=8 groups=1"},
    {kGemm, "m=8", "m=8000000000"},
    {kGemm, "m=8 n=6", "n=6 m=8"},
    {kGemm, "a=x0:f16:4:32", "a=x0:f16:3:32"},
    {kGemm, "a=x0:f16:4:32", "a=x0:f16"},
    {kGemm, "a=x0:f16:4:32", "a=x0:f17:4:32"},
    {kGemm, "a=x0:f16:4:32 ", ""},
    {kGemm, "4:0:t", "3:0:t"},
    {kGemm, "bias=x2:f16", "bias=x2:f16:6:0"},
    {kGemm, "act=clip:-1.5:6", "act=clip:-1.5"},
    {kGemm, "act=clip:-1.5:6", "act=clipped"},
    {kGemm, "act=clip", "act:clip"},
    {kGemm, "residual=x3:f16", "spatial=1"},
    {kConvolution, "groups=1", "groups=3"},
    {kConvolution, "spatial=14,15", "spatial=14"},
    {kConvolution, "spatial=14,15 ", ""},
    {kConvolution, "window=3,1", "window=30,1"},
    {kConvolution, "strides=2,1", "strides=0,1"},
    {kConvolution, "batch=2", "batch=2 m=1"},
    {kConvolution, "spatial=14,15", "spatial=1000000000,1000000000"},
    {kGemm, "k=4", "k=4 keys=4"},
    {kGemm, "a=x0:f16:4:32", "a=x0:f16:4:32:8:0"},
    {kConvolution, "groups=1", "groups=1 keys=2"},
    {kAttention, " keys=7", ""},
    {kAttention, "groups=3 ", ""},
    {kAttention, "keys=7", "keys=7 spatial=1"},
    {kAttention, "values=x2:f16:48:336:16:0 ", ""},
    {kAttention, "residual=x3", "bias=x3"},
    {kAttention, "a=x0:f16:24:120:8:0", "a=x0:f16:24:120"},
    {kAttention, "a=x0:f16:24:120:8:0", "a=x0:f16:24:120:8:-8"},
    {kAttention, "a=x0:f16:24:120:8:0", "a=x0:f16:24:120:-8:0"},
    {kAttention, "act=softmax:0.125", "act=relu"},
    {kAttention, " act=softmax:0.125", ""},
    {kGemm, "act=clip:-1.5:6", "act=softmax:1"},
    {kGemm, "bias=x2:f16", "values=x2:f16"},
    {kGemm, "act=clip", "mask=causal act=clip"},
    {kAttention, "act=softmax", "mask=window act=softmax"},
};

TEST(ProblemDescriptor, OtherTextsAreRefused) {
  for (const Wrong& wrong : kWrong) {
    std::string text = wrong.text;
    const size_t at = text.find(wrong.from);
    ASSERT_NE(at, std::string::npos) << wrong.from;
    text.replace(at, std::string_view(wrong.from).size(), wrong.to);
    EXPECT_THROW(format::parse_problem(text), format::Error) << text;
  }
  for (const char* text : {"", "cublaslt", "cublaslt 1 0", "cublaslt 1 0 ", "cublaslt x 0 gemm", "cublaslt 1 -1 gemm"})
    EXPECT_THROW(format::parse_library_call(text), format::Error) << text;
  for (const char* way : {"-1", "1,", "1,2", "1,2=", "1,2=3,", "1,=3", "1,2=3=4", "01", "1,02=3", "1;2=3"})
    EXPECT_THROW(format::parse_library_call(std::string("cudnn 1 ") + way + " " + kConvolution), format::Error) << way;
}

}  // namespace
}  // namespace tw
