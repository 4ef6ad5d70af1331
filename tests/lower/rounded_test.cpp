// What is rounded to 16 bits may be approximated.
#include <fmt/format.h>

#include "tests/lower/pass_test.h"

namespace tw::lower::test {
namespace {

std::string expanded(const std::string& type, const std::string& body, bool approximations = true) {
  const std::string head =
      fmt::format("program p kernel k(X: f32[8] param, Y: {}[8] param written, Z: f32[8] param written) {{\n", type);
  const loop::Program program = loop::parse_program(head + body + "\n}\n");
  loop::verify(program);
  const LowerOptions options{.has = {.approximations = approximations}};
  const loop::Program result = find_pass("expand-functions").run(program, options);
  loop::verify(result, find_pass("expand-functions").rules);
  return loop::to_string(result);
}

bool approximates(const std::string& text) { return text.find("_approx(") != std::string::npos; }

TEST(Rounded, StoresOf16BitsAreApproximated) {
  for (const std::string type : {"f16", "bf16"}) {
    const std::string text = expanded(type, "for i in 8 { Y[i] = cast<" + type + ">((exp(X[i]) / X[0])) }");
    EXPECT_NE(text.find("quotient_approx(exp2_approx("), std::string::npos) << text;
  }
  EXPECT_FALSE(approximates(expanded("f16", "for i in 8 { Y[i] = cast<f16>(exp(X[i])) }", false)));
}

TEST(Rounded, WhatIsStoredAsF32IsExact) {
  EXPECT_FALSE(approximates(expanded("f32", "for i in 8 { Y[i] = exp(X[i]) }")));
  EXPECT_FALSE(approximates(expanded("f32", "for i in 8 { Y[i] = (X[i] / X[0]) }")));
  EXPECT_TRUE(approximates(expanded("f32", "for i in 8 { Y[i] = cast<f32>(cast<f16>(exp(X[i]))) }")));
  EXPECT_TRUE(approximates(expanded("f32", "for i in 8 { Y[i] = rough((1:f32 / exp(X[i]))) }")));
  EXPECT_FALSE(approximates(expanded("f32", "for i in 8 { Y[i] = (rough(X[i]) / exp(X[i])) }")));
  EXPECT_FALSE(approximates(expanded("f32", "for i in 8 { let e = exp(X[i]) { Y[i] = e } }")));
  EXPECT_TRUE(approximates(expanded("f16",
                                    "alloc s: f32[1] register\ns[0] = 0:f32\n"
                                    "for i in 8 { s[0] = (s[0] + exp(X[i])) }\nY[0] = cast<f16>(s[0])")))
      << "a sum may be f32";
}

TEST(Rounded, StoresOfResultsAreLookedAtOneByOne) {
  const auto count = [](const std::string& text, const std::string& what) {
    size_t n = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
    return n;
  };
  const std::string two = expanded("f16", "for i in 8 { Y[i] = cast<f16>(exp(X[i]))\nZ[i] = exp(X[i]) }");
  EXPECT_EQ(count(two, "exp2_approx("), 1U) << two;
  EXPECT_EQ(count(expanded("f16", "for i in 8 { Y[i] = cast<f16>(floor(exp(X[i])))\nZ[i] = exp(X[i]) }"), "_approx("),
            0U);
  EXPECT_EQ(
      count(expanded("f16", "for i in 8 { Y[i] = cast<f16>(exp(X[i]))\nZ[i] = floor(cast<f32>(Y[i])) }"), "_approx("),
      0U)
      << "what is read again may decide";
}

// Softplus and 1 + erf are right to 14 bits: a difference of f32 would show that.
TEST(Rounded, WhatMayCancelIsExact) {
  for (const std::string value : {"(softplus(X[i]) - 0.6931472:f32)", "log((1:f32 + erf(X[i])))",
                                  "fma(softplus(X[i]), X[0], X[1])", "((1:f32 + erf(X[i])) + -1:f32)"}) {
    EXPECT_FALSE(approximates(expanded("f16", "for i in 8 { Y[i] = cast<f16>(" + value + ") }"))) << value;
  }
  EXPECT_FALSE(
      approximates(expanded("f16", "for i in 8 { let e = softplus(X[i]) { Y[i] = cast<f16>((e - 0.6931472:f32)) } }")));
  for (const std::string value :
       {"softplus(X[i])", "(X[i] * tanh(softplus(X[i])))", "((0.5:f32 * X[i]) * (1:f32 + erf(X[i])))",
        "(exp(X[i]) - 1:f32)", "(cast<f32>(cast<f16>(softplus(X[i]))) - 0.6931472:f32)"}) {
    EXPECT_TRUE(approximates(expanded("f16", "for i in 8 { Y[i] = cast<f16>(" + value + ") }"))) << value;
  }
}

TEST(Rounded, WhatALastBitDecidesIsExact) {
  for (const std::string step : {"floor(e)", "cast<f32>(cast<i32>(e))", "select((e < 1:f32), 0:f32, X[i])",
                                 "floor(cast<f32>(cast<f16>(e)))", "X[cast<i64>(e)]"}) {
    const std::string body = "for i in 8 { let e = exp(X[i]) { Y[i] = cast<f16>(" + step + ") } }";
    EXPECT_FALSE(approximates(expanded("f16", body))) << step;
  }
  EXPECT_FALSE(approximates(expanded("f16",
                                     "alloc s: f32[1] register\ns[0] = 0:f32\n"
                                     "for i in 8 { Y[i] = cast<f16>(floor(s[0]))\ns[0] = (X[i] / X[0]) }")))
      << "by way of the next turn of a loop";
  EXPECT_FALSE(approximates(expanded("f16",
                                     "alloc s: f32[1] register\nalloc t: f32[1] register\nalloc u: f32[1] register\n"
                                     "s[0] = 0:f32\nt[0] = 0:f32\nu[0] = 0:f32\n"
                                     "for i in 8 { Y[i] = cast<f16>(floor(s[0]))\ns[0] = t[0]\nt[0] = u[0]\n"
                                     "u[0] = (X[i] / X[0]) }")))
      << "by way of several turns";
}

}  // namespace
}  // namespace tw::lower::test
