#include <gtest/gtest.h>

#include "support/error.h"
#include "te/rewrite.h"
#include "tests/te/samples.h"

namespace tw::te {
namespace {

using samples::Random;

TEST(TeText, ReadsWell) {
  EXPECT_EQ(to_string(samples::matmul_bias_relu(128, 768, 64)),
            "te matmul_bias_relu\n"
            "input A: f32[128, 64]\n"
            "input B: f32[64, 768]\n"
            "input bias: f32[768]\n"
            "C: f32[128, 768] = sum(r0 in 64) over (i0, i1) of (A[i0, r0] * B[r0, i1])\n"
            "Y: f32[128, 768] (i0, i1) = max((C[i0, i1] + bias[i1]), 0:f32)\n"
            "output Y\n");
  EXPECT_EQ(to_string(samples::argmax(4, 9)),
            "te argmax\n"
            "input X: f32[4, 9]\n"
            "value: f32[4], place: i64[4] = tuple(r0 in 9) from (-inf:f32, -1) over (i0) of (X[i0, r0], r0)"
            " by (va, ia), (vb, ib) -> (max(va, vb), select((va < vb), ib, ia))\n"
            "output value, place\n");
}

TEST(TeText, RoundTripsEveryKindOfProgram) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Random random(seed);
    for (const Program& program : samples::all(random)) {
      const std::string text = to_string(program);
      EXPECT_EQ(to_string(parse_program(text)), text);
      std::map<std::string, Layout> layouts;
      const Tensor& output = program.computes.back().outputs[0];
      if (program.computes.back().outputs.size() == 1)
        layouts[output.name] = samples::random_layout(output.shape, random, samples::Padding::kAllowed);
      const std::string rewritten = to_string(apply_layouts(program, layouts));
      EXPECT_EQ(to_string(parse_program(rewritten)), rewritten);
    }
  }
}

TEST(TeText, KeepsTheMeaning) {
  Random random(2);
  const Program program = samples::conv(2, 6, 3, 1, 2, samples::Guard::kPredicate);
  const ValueMap inputs = samples::random_inputs(program, random, 1);
  EXPECT_TRUE(
      samples::same(evaluate(parse_program(to_string(program)), inputs).at("Y"), evaluate(program, inputs).at("Y")));
}

TEST(TeText, ScalarsIdentitiesAndOddNames) {
  const std::string text =
      "te \"a/b\"\n"
      "input input: f32[]\n"
      "input \"x:0\": i64[3]\n"
      "output: f32[] () = (input[] * 2:f32)\n"
      "total: i64[] = sum(k in 3) from 5 over () of \"x:0\"[k]\n"
      "two: f32[2], three: f32[2] (i0) = (output[], input[])\n"
      "output output, total, two\n";
  const Program program = parse_program(text);
  EXPECT_EQ(to_string(program), text);
  const TensorValues x{DataType::i64(), {3}, {}, {1, 2, 4}};
  const ValueMap out = evaluate(program, {{"input", {DataType::f32(), {}, {1.5}, {}}}, {"x:0", x}});
  EXPECT_EQ(out.at("total").ints, std::vector<int64_t>{12});
  EXPECT_EQ(out.at("output").floats, std::vector<double>{3.0});
  EXPECT_EQ(out.at("three").floats, (std::vector<double>{1.5, 1.5}));
}

struct BadText {
  const char* text;
  const char* message;
};

TEST(TeText, ErrorsNameLineAndReason) {
  const BadText cases[] = {
      {"tee x", "line 1, column 1"},
      {"te x\ninput A: f99[3]\n", "line 2, column 10: 'f99' is no element type"},
      {"te x\ninput A: f32[-3]\n", "line 2, column 14: extent -3"},
      {"te x\ninput A: f32[3]\ninput A: f32[3]\n", "line 3, column 7: a second tensor named 'A'"},
      {"te x\ninput A: f32[3]\nB: f32[3] (i0) = C[i0]\n", "'C' is no tensor"},
      {"te x\ninput A: f32[3]\nB: f32[3] (i0) = A[i1]\n", "unknown variable 'i1'"},
      {"te x\ninput A: f32[3]\nB: f32[3] (i0) = A[i0, 0]\n", "line 3, column 18: 2 indices for 'A' of shape [3]"},
      {"te x\ninput A: f32[3]\nB: i64[3] (i0) = A[i0]\n", "line 3, column 18: 'B' is i64 but this is f32"},
      {"te x\ninput A: f32[3]\nB: f32[3] (i0, i1) = A[i0]\n", "more axes than dimensions"},
      {"te x\ninput A: f32[3]\nB: f32[3] () = A[0]\n", "axes for shape [3]"},
      {"te x\ninput A: f32[3]\nB: f32[] = mean(r0 in 3) over () of A[r0]\n",
       "line 3, column 12: unknown combiner 'mean'"},
      {"te x\ninput A: f32[3]\nB: f32[3] = sum(i0 in 3) over (i0) of A[i0]\n", "a second axis named 'i0'"},
      {"te x\ninput A: f32[3]\nB: f32[3] (i0) = A[0:i32]\n", "is no i64"},
      {"te x\ninput A: f32[3]\noutput B\n", "line 3, column 8: unknown tensor 'B'"},
  };
  for (const BadText& bad : cases) {
    try {
      parse_program(bad.text);
      ADD_FAILURE() << "parsed: " << bad.text;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(bad.message), std::string::npos) << error.what() << "\nfor " << bad.text;
    }
  }
}

}  // namespace
}  // namespace tw::te
