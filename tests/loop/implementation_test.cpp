// Implementations as text: what plans and artefacts hold of kernels that are not of our own making.
#include "loop/implementation.h"

#include <gtest/gtest.h>

#include "support/error.h"

namespace tw::loop {
namespace {

const std::string kTemplate =
    "template gemm_sm90_64x128x64_pingpong_2x1 gemm batch=1 m=128 n=64 k=64 a=x0:f16:64:0 b=x1:f16:64:0 "
    "out=y:f16:64:0";
const std::string kCall =
    "cublaslt 130100 0 gemm batch=1 m=24 n=48 k=32 a=x0:f16:32:0 b=x1:f16:48:0 bias=x2:f32 out=y:f16:48:0 act=relu";

TEST(Implementation, TextHoldsAllOfIt) {
  const std::string scaled = kTemplate + " epilogue x2:f16:column,x3:f32:point ((x0 * cast<f32>(x1)) + x2)";
  for (const std::string& text : {kTemplate, scaled, kCall}) {
    const Implementation i = parse_implementation(text);
    EXPECT_TRUE(i);
    EXPECT_EQ(to_string(i), text);
    EXPECT_EQ(i, parse_implementation(text));
    EXPECT_EQ(i.library() != nullptr, text == kCall);
    EXPECT_EQ(i.of_template() != nullptr, text != kCall);
  }
  EXPECT_NE(parse_implementation(kTemplate), parse_implementation(scaled));
  EXPECT_NE(parse_implementation(kTemplate), Implementation());
  const TemplateCall call = *parse_implementation(scaled).of_template();
  EXPECT_EQ(call.row, "gemm_sm90_64x128x64_pingpong_2x1");
  EXPECT_EQ(call.problem.m, 128);
  ASSERT_EQ(call.epilogue.operands.size(), 2U);
  EXPECT_TRUE(call.epilogue.operands[1].is_tensor);
  EXPECT_EQ(parse_implementation(kCall).library()->problem.activation, format::Activation::kRelu);
}

TEST(Implementation, NobodyIsNothing) {
  EXPECT_FALSE(Implementation());
  EXPECT_EQ(to_string(Implementation()), "");
  EXPECT_EQ(Implementation().library(), nullptr);
  EXPECT_EQ(Implementation().of_template(), nullptr);
  EXPECT_EQ(Implementation(), Implementation());
}

TEST(Implementation, WhatIsNoneIsRefused) {
  for (const char* wrong : {"x2:i32:column x0", "x2:f16:row x0", "x0 + x1", "x0 <", "x2:f16:column x1", "x0 < 1:f32",
                            "reduce_add(broadcast(x0, 16))", "x0 x0", ""})
    EXPECT_THROW(parse_implementation(kTemplate + " epilogue " + wrong), UserError) << wrong;
  for (const char* wrong :
       {"", "template", "template gemm", "template gemm gemm", "cublaslt", "cublaslt 0 gemm", "gemm batch=1"})
    EXPECT_THROW(parse_implementation(wrong), UserError) << wrong;
}

}  // namespace
}  // namespace tw::loop
