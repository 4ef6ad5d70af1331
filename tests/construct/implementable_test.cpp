// Groups that others' kernels can compute: what the problem is, why there is none, and that the plain loops which stand
// for it compute the same.
#include "construct/library/implementable.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/construct/construct_check.h"
#include "tests/harness/te_programs.h"

namespace tw::construct {
namespace {

// y = epilogue of the sums of a [m, k] and b [k, n], all f16; `epilogue` is te text behind "sum".
te::Program product_with(const std::string& epilogue, const std::string& output) {
  return te::parse_program(
      "te group\n"
      "input x0: f16[9, 16]\ninput x1: f16[16, 24]\ninput x2: f16[24]\ninput x3: f16[9, 24]\n"
      "sum: f32[9, 24] = sum(r0 in 16) over (i0, i1) of (cast<f32>(x0[i0, r0]) * cast<f32>(x1[r0, i1]))\n" +
      epilogue + "output " + output + "\n");
}

// A stage of the same extents.
std::string stage(const std::string& name, const std::string& type, const std::string& body) {
  return fmt::format("{}: {}[9, 24] (i0, i1) = {}\n", name, type, body);
}

const std::string kBias = stage("biased", "f16", "cast<f16>(sum[i0, i1] + cast<f32>(x2[i1]))");

std::string problem_of(const GroupTask& task) {
  const Result<Implementable> match = match_implementable(task);
  if (!match.ok()) return match.reason();
  const Result<format::ProblemDescriptor> problem = with_epilogue(match->problem, match->epilogue, task.precision);
  return problem.ok() ? to_string(*problem) : problem.reason();
}

struct Case {
  const char* body;     // of a stage behind the bias, in f32, X being the biased sums
  const char* problem;  // behind the operands
};
const Case kActivations[] = {
    {"max(X, 0:f32)", " act=relu"},
    {"min(max(X, 0:f32), 6:f32)", " act=clip:0:6"},
    {"select((X < 0:f32), (0.25:f32 * X), X)", " act=leaky_relu:0.25"},
    {"sigmoid(X)", " act=sigmoid"},
    {"tanh(X)", " act=tanh"},
    {"(X * sigmoid(X))", " act=silu"},
    {"((0.5:f32 * X) * (1:f32 + erf((X * 0.70710677:f32))))", " act=gelu"},
    {"(X * sigmoid((1.5957692:f32 * (X + (((0.044715:f32 * X) * X) * X)))))", " act=gelu_tanh"},
    {"(X * max(0:f32, min(1:f32, ((X * 0.16666667:f32) + 0.5:f32))))", " act=hard_swish"},
    {"softplus(X)", " act=softplus"},
};

TEST(Implementable, ActivationsBehindABias) {
  for (const Case& c : kActivations) {
    std::string body = c.body;
    for (size_t at = body.find('X'); at != std::string::npos; at = body.find('X', at + 1))
      body.replace(at, 1, "cast<f32>(biased[i0, i1])");
    const GroupTask task{product_with(kBias + stage("y", "f16", "cast<f16>(" + body + ")"), "y"), {"x1", "x2"}};
    EXPECT_EQ(problem_of(task), std::string("gemm batch=1 m=9 n=24 k=16 a=x0:f16:16:0 b=x1:f16:24:0 bias=x2:f16 "
                                            "out=y:f16:24:0") +
                                    c.problem);
    const Result<Implementable> match = match_implementable(task);
    ASSERT_TRUE(match.ok()) << match.reason();
    check_candidate(task, targets::find_target("cuda:sm_90a"),
                    match->by(loop::TemplateCall{"somebody", match->problem}), 1e-2, Passes::kEach);
  }
}

TEST(Implementable, StrictPrecisionWantsFunctionsOfOurs) {
  const auto problem = [](const std::string& body) {
    GroupTask task{product_with(stage("y", "f16", "cast<f16>(" + body + ")"), "y"), {}};
    task.precision = Precision::kStrict;
    return problem_of(task);
  };
  EXPECT_EQ(problem("sigmoid(sum[i0, i1])"),
            "precision is strict, and others may approximate what follows the sum of y");
  EXPECT_NE(problem("max(sum[i0, i1], 0:f32)").find("act=relu"), std::string::npos);
}

TEST(Implementable, ResidualsBeforeAndBehind) {
  const std::string added = stage("added", "f16", "cast<f16>(cast<f32>(x3[i0, i1]) + cast<f32>(biased[i0, i1]))");
  const std::string relu = stage("y", "f16", "cast<f16>(max(cast<f32>(added[i0, i1]), 0:f32))");
  const std::string operands = "gemm batch=1 m=9 n=24 k=16 a=x0:f16:16:0 b=x1:f16:24:0 bias=x2:f16 ";
  EXPECT_EQ(problem_of({product_with(kBias + added, "added"), {}}), operands + "residual=x3:f16 out=added:f16:24:0");
  EXPECT_EQ(problem_of({product_with(kBias + added + relu, "y"), {}}),
            operands + "residual=x3:f16 out=y:f16:24:0 act=relu");
  const std::string first = stage("r", "f16", "cast<f16>(max(cast<f32>(biased[i0, i1]), 0:f32))");
  const std::string then = stage("y", "f16", "cast<f16>(cast<f32>(r[i0, i1]) + cast<f32>(x3[i0, i1]))");
  EXPECT_EQ(problem_of({product_with(kBias + first + then, "y"), {}}),
            operands + "late_residual=x3:f16 out=y:f16:24:0 act=relu");
}

TEST(Implementable, TransposedAndBatchedOperands) {
  const auto problem = [](const std::string& inputs, const std::string& sum) {
    return problem_of({te::parse_program("te group\n" + inputs + sum + "output sum\n"), {}});
  };
  EXPECT_EQ(problem("input x0: f32[16, 9]\ninput x1: f32[24, 16]\n",
                    "sum: f32[9, 24] = sum(r0 in 16) over (i0, i1) of (x0[r0, i0] * x1[i1, r0])\n"),
            "gemm batch=1 m=9 n=24 k=16 a=x0:f32:9:0:t b=x1:f32:16:0:t out=sum:f32:24:0");
  EXPECT_EQ(problem("input x0: f32[5, 9, 16]\ninput x1: f32[5, 16, 24]\n",
                    "sum: f32[5, 9, 24] = sum(r0 in 16) over (i0, i1, i2) of (x0[i0, i1, r0] * x1[i0, r0, i2])\n"),
            "gemm batch=5 m=9 n=24 k=16 a=x0:f32:16:144 b=x1:f32:24:384 out=sum:f32:24:216");
  EXPECT_EQ(problem("input x0: f32[9, 5, 16]\ninput x1: f32[5, 16, 24]\n",
                    "sum: f32[9, 5, 24] = sum(r0 in 16) over (i0, i1, i2) of (x0[i0, i1, r0] * x1[i1, r0, i2])\n"),
            "gemm batch=5 m=9 n=24 k=16 a=x0:f32:80:16 b=x1:f32:24:384 out=sum:f32:120:24");
}

// Of the epilogue as it is, in terms of its operands.
std::string epilogue_of(const std::string& stages) {
  const GroupTask task{product_with(stages, "y"), {"x1"}};
  const Result<Implementable> match = match_implementable(task);
  if (!match.ok()) return match.reason();
  check_candidate(task, targets::find_target("cuda:sm_90a"), match->by(loop::TemplateCall{"somebody", match->problem}),
                  1e-2, Passes::kEach);
  return to_string(loop::parse_epilogue(to_string(match->epilogue)));
}

// Any arithmetic on the sum, numbers of its columns and numbers of its points.
TEST(Implementable, EpiloguesAreWhatTheyAre) {
  EXPECT_EQ(epilogue_of(stage("y", "f32", "exp(min(sum[i0, i1], 1:f32))")), "exp(min(x0, 1:f32))");
  EXPECT_EQ(epilogue_of(stage("y", "f16", "cast<f16>(cast<f32>(x3[i0, i1]) * sum[i0, i1])")),
            "x3:f16:point (cast<f32>(x1) * x0)");
  EXPECT_EQ(epilogue_of(kBias + stage("y", "f16", "max(biased[i0, i1], x3[i0, i1])")),
            "x2:f16:column,x3:f16:point max((x0 + cast<f32>(x1)), cast<f32>(x2))");
  EXPECT_EQ(epilogue_of(stage("z", "f16", "cast<f16>(cast<f32>(x3[i0, i1]) + (cast<f32>(x2[i1]) + sum[i0, i1]))") +
                        stage("y", "f16", "select((z[i0, i1] < 0:f16), 0.5:f16, z[i0, i1])")),
            "x2:f16:column,x3:f16:point select((((x0 + cast<f32>(x1)) + cast<f32>(x2)) < 0:f32), 0.5:f32, "
            "((x0 + cast<f32>(x1)) + cast<f32>(x2)))");
  EXPECT_EQ(epilogue_of(stage("y", "f32", "(max(sum[i0, i1], 0:f32) + cast<f32>(x2[i1]))")),
            "x2:f16:column (max(x0, 0:f32) + cast<f32>(x1))");
}

TEST(Implementable, EpiloguesThatAreNoneSayWhy) {
  const std::string elsewhere = "neither point by point nor by columns";
  EXPECT_EQ(epilogue_of(stage("y", "f32", "(sum[i0, i1] + cast<f32>(x0[i0, 3]))")),
            "what follows sum reads x0 " + elsewhere)
      << "a bias of rows";
  EXPECT_EQ(epilogue_of(stage("y", "f32", "(sum[i0, i1] + cast<f32>(x3[(8 - i0), i1]))")),
            "what follows sum reads x3 " + elsewhere);
  EXPECT_EQ(epilogue_of(stage("y", "f32", "select((i0 < 4), sum[i0, i1], 0:f32)")),
            "what follows sum depends on where in the result it is");
  EXPECT_EQ(epilogue_of(stage("y", "i32", "cast<i32>(sum[i0, i1])")), "what follows sum is no f32");
  EXPECT_EQ(epilogue_of("input seed: i64[]\n" +
                        stage("y", "f32", "select(((seed[] >> 32:i64) < 1:i64), sum[i0, i1], 0:f32)")),
            "what follows sum reads seed " + elsewhere)
      << "as dropouts do";
}

TEST(Implementable, OtherGroupsSayWhy) {
  const auto reason = [](const std::string& epilogue) { return problem_of({product_with(epilogue, "y"), {}}); };
  const std::string unknown = "what follows the sum of y is no bias, residual or known activation";
  EXPECT_EQ(reason(stage("y", "f32", "exp(sum[i0, i1])")), unknown);
  EXPECT_EQ(reason(stage("y", "f32", "(sum[i0, i1] * cast<f32>(x3[i0, i1]))")), unknown);
  EXPECT_EQ(reason(stage("y", "f32", "(max(sum[i0, i1], 0:f32) + cast<f32>(x2[i1]))")), unknown) << "late bias";
  EXPECT_EQ(problem_of({testing::softmax(4, 5), {}}), "no sum of products");
}

// Two heads of 8 between positions, parts of one tensor as projections leave them; `scaled` is te text of what softmax
// reads, in terms of the scores S.
te::Program attention(std::string scaled, const std::string& type = "f16") {
  for (size_t at = scaled.find('S'); at != std::string::npos; at = scaled.find('S'))
    scaled.replace(at, 1, "cast<f32>(rounded[i0, i2, i1, i3])");
  std::string text =
      "te group\n"
      "input x0: f16[2, 5, 6, 8]\ninput x1: f16[2, 7, 6, 8]\ninput x2: f32[2, 7]\ninput x3: f16[2, 7, 6, 8]\n"
      "k: f16[2, 8, 2, 7] (i0, i1, i2, i3) = x1[i0, i3, (i2 + 2), i1]\n"
      "scores: f32[2, 2, 5, 7] = sum(r0 in 8) over (i0, i1, i2, i3) of (cast<f32>(x0[i0, i2, i1, r0]) * "
      "cast<f32>(k[i0, r0, i1, i3]))\n"
      "rounded: f16[2, 5, 2, 7] (i0, i1, i2, i3) = cast<f16>(scores[i0, i2, i1, i3])\n"
      "scaled: f16[2, 2, 5, 7] (i0, i1, i2, i3) = cast<f16>(" +
      scaled +
      ")\n"
      "most: f32[2, 2, 5] = max(r0 in 7) over (i0, i1, i2) of cast<f32>(scaled[i0, i1, i2, r0])\n"
      "power: f32[2, 2, 5, 7] (i0, i1, i2, i3) = exp((cast<f32>(scaled[i0, i1, i2, i3]) - most[i0, i1, i2]))\n"
      "total: f32[2, 2, 5] = sum(r0 in 7) over (i0, i1, i2) of power[i0, i1, i2, r0]\n"
      "share: f32[2, 2, 5] (i0, i1, i2) = (1:f32 / total[i0, i1, i2])\n"
      "weights: f16[2, 2, 5, 7] (i0, i1, i2, i3) = cast<f16>((power[i0, i1, i2, i3] * share[i0, i1, i2]))\n"
      "sum: f32[2, 5, 2, 8] = sum(r0 in 7) over (i0, i1, i2, i3) of (cast<f32>(weights[i0, i2, i1, r0]) * "
      "cast<f32>(x3[i0, r0, (i2 + 4), i3]))\n"
      "y: f16[2, 5, 2, 8] (i0, i1, i2, i3) = cast<f16>(sum[i0, i1, i2, i3])\n"
      "output y\n";
  for (size_t at = text.find("f16"); type != "f16" && at != std::string::npos; at = text.find("f16", at + type.size()))
    text.replace(at, 3, type);
  return te::parse_program(text);
}

TEST(Implementable, Attention) {
  const std::string head = "attention batch=2 m=5 n=8 k=8 groups=2 keys=7 a=x0:f16:48:240:8:0 b=x1:f16:48:336:8:16 ",
                    rest = "values=x3:f16:48:336:8:32 out=y:f16:16:80:8:0 act=softmax:",
                    masked = head + "residual=x2:f32:0:7:0:0 " + rest,
                    causal = head + rest.substr(0, rest.find("act=")) + "mask=causal act=softmax:";
  const std::pair<const char*, std::string> cases[] = {
      {"S", head + rest + "1"},
      {"(S * 0.125:f32)", head + rest + "0.125"},
      {"(S / 4:f32)", head + rest + "0.25"},
      {"((S * 0.125:f32) + x2[i0, i3])", masked + "0.125"},
      {"(x2[i0, i3] + (S / 2:f32))", masked + "0.5"},
      {"(S + x2[i0, i3])", masked + "1"},
      {"select((i3 < (i2 + 1)), S, -65504:f32)", causal + "1"},
      {"select((i3 < (i2 + 1)), (S / 4:f32), -3.4e+38:f32)", causal + "0.25"}};
  for (const auto& [scaled, problem] : cases) {
    const GroupTask task{attention(scaled), {}};
    EXPECT_EQ(problem_of(task), problem);
    const Result<Implementable> match = match_implementable(task);
    ASSERT_TRUE(match.ok()) << match.reason();
    EXPECT_EQ(format::parse_problem(problem), match->problem);
    EXPECT_EQ(schedule::apply(task.program, match->by(loop::TemplateCall{"somebody", match->problem}).schedule)
                  .kernels.size(),
              1U);
    check_candidate(task, targets::find_target("cuda:sm_90a"),
                    match->by(loop::TemplateCall{"somebody", match->problem}), 1e-2, Passes::kEach);
  }
  EXPECT_EQ(problem_of({attention("S", "bf16"), {}}).find("a=x0:bf16"), 46U);
}

TEST(Implementable, WhatIsNoAttentionSaysWhy) {
  const std::string follows = "rounded does not follow scores point by point, and ";
  GroupTask task{attention("(S * 0.125:f32)"), {}};
  task.precision = Precision::kStrict;
  EXPECT_EQ(problem_of(task), "precision is strict, and others may approximate what follows the sum of y");
  const auto reason = [](const std::string& scaled, const std::string& from = "", const std::string& to = "") {
    std::string text = to_string(attention(scaled));
    for (size_t at = from.empty() ? text.npos : text.find(from); at != text.npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
    return problem_of({te::parse_program(text), {}});
  };
  const std::string scores = follows + "what softmax reads is no product, scaled and masked";
  EXPECT_EQ(reason("((S + x2[i0, i3]) * 0.125:f32)"), scores) << "the mask is scaled";
  EXPECT_EQ(reason("tanh(S)"), scores);
  EXPECT_EQ(reason("select((i3 < (i2 + 2)), S, -65504:f32)"), scores) << "one key more";
  EXPECT_EQ(reason("select((i3 < (i2 + 1)), S, -1000:f32)"), scores) << "not as low as what masks leave";
  EXPECT_EQ(reason("S", "max(r0", "sum(r0"), follows + "no softmax multiplies values");
  EXPECT_EQ(reason("S", "of power[i0, i1, i2, r0]", "of cast<f32>(scaled[i0, i1, i2, r0])"),
            follows + "no softmax multiplies values");
  EXPECT_EQ(reason("(S + x2[i0, i2])"), follows + "operands of attention do not lie row by row") << "a mask of queries";
  EXPECT_EQ(reason("S", "x0[i0, i2, i1, r0]", "x0[i0, i2, r0, i1]"),
            follows + "operands of attention do not lie row by row")
      << "the depth is no row";
}

// Channels last, padded by 1 where the window has 3 elements.
te::Program convolution(int64_t stride, const std::string& guard) {
  const int64_t out = (12 + 2 - 3) / stride + 1;
  return te::parse_program(fmt::format(
      "te group\n"
      "input x0: f16[2, 12, 9, 8]\ninput x1: f16[16, 8, 3]\ninput x2: f16[16]\n"
      "pad: f16[2, 14, 9, 8] (i0, i1, i2, i3) = select({1}, x0[i0, (i1 - 1), i2, i3], 0:f16)\n"
      "sum: f32[2, {0}, 9, 16] = sum(r0 in 8, r1 in 3) over (i0, i1, i2, i3) of "
      "(cast<f32>(pad[i0, ((i1 * {2}) + r1), i2, r0]) * cast<f32>(x1[i3, r0, r1]))\n"
      "y: f16[2, {0}, 9, 16] (i0, i1, i2, i3) = cast<f16>(max((sum[i0, i1, i2, i3] + cast<f32>(x2[i3])), 0:f32))\n"
      "output y\n",
      out, guard, stride));
}

TEST(Implementable, ConvolutionsWithTheChannelsLast) {
  const std::string inside = "((1 <= i1) && (i1 < 13))";
  for (const int64_t stride : {1, 2}) {
    const GroupTask task{convolution(stride, inside), {"x1"}};
    EXPECT_EQ(problem_of(task),
              fmt::format("convolution batch=2 n=16 k=8 groups=1 spatial=12,9 window=3,1 strides={},1 dilations=1,1 "
                          "pads=1,0 pads_end={},0 a=x0:f16 b=x1:f16 bias=x2:f16 out=y:f16 act=relu",
                          stride, stride == 1 ? 1 : 0));
    const Result<Implementable> match = match_implementable(task);
    ASSERT_TRUE(match.ok()) << match.reason();
    EXPECT_EQ(to_string(match->layouts.at("x1")), "reorder(0, 2, 1)");
    check_candidate(task, targets::find_target("cuda:sm_90a"),
                    match->by(loop::TemplateCall{"somebody", match->problem}), 1e-2);
  }
  EXPECT_NE(problem_of({convolution(1, inside), {}}).find("no convolution"), std::string::npos)
      << "filters that are no constant stay as they are";
  for (const char* other : {"((2 <= i1) && (i1 < 13))", "((1 <= i1) && (i1 < 12))", "(1 <= i1)", "(i2 < 5)"})
    EXPECT_NE(problem_of({convolution(1, other), {"x1"}}).find("no convolution"), std::string::npos) << other;
}

// Two images of 6 x 5 points and 8 channels, to 16 of them; `channel` of the filter's group that a step reads.
te::Program grouped(const std::string& channel, const std::string& steps, const std::string& filters,
                    const std::string& read) {
  return te::parse_program(
      "te group\n"
      "input x0: f16[2, 6, 5, 8]\ninput x1: f16" +
      filters +
      "\n"
      "sum: f32[2, 4, 3, 16] = sum(" +
      steps +
      "r1 in 3, r2 in 3) over (i0, i1, i2, i3) of "
      "(cast<f32>(x0[i0, (i1 + r1), (i2 + r2), " +
      channel + "]) * cast<f32>(x1[" + read +
      "]))\n"
      "output sum\n");
}

TEST(Implementable, ConvolutionsInGroups) {
  const auto text = [](int64_t groups) {
    return fmt::format(
        "convolution batch=2 n=16 k=8 groups={} spatial=6,5 window=3,3 strides=1,1 dilations=1,1 "
        "pads=0,0 pads_end=0,0 a=x0:f16 b=x1:f16 out=sum:f32",
        groups);
  };
  const std::string ones = "[16, 1, 3, 3]", pairs = "[16, 2, 3, 3]";
  const GroupTask each{grouped("floordiv(i3, 2)", "", ones, "i3, 0, r1, r2"), {"x1"}};
  EXPECT_EQ(problem_of(each), text(8));
  const GroupTask four{grouped("((floordiv(i3, 4) * 2) + r0)", "r0 in 2, ", pairs, "i3, r0, r1, r2"), {"x1"}};
  EXPECT_EQ(problem_of(four), text(4));
  for (const GroupTask& task : {each, four}) {
    const Result<Implementable> match = match_implementable(task);
    ASSERT_TRUE(match.ok()) << match.reason();
    check_candidate(task, targets::find_target("cuda:sm_90a"),
                    match->by(loop::TemplateCall{"somebody", match->problem}), 1e-2);
  }
  for (const char* other :
       {"floordiv(i3, 4)", "((floordiv(i3, 4) * 2) + 1)", "(7 - floordiv(i3, 2))", "floormod(i3, 8)"})
    EXPECT_NE(problem_of({grouped(other, "", ones, "i3, 0, r1, r2"), {"x1"}}).find("no convolution"), std::string::npos)
        << other;
  EXPECT_EQ(problem_of({testing::depthwise(6, 8), {}}),
            "convolution batch=1 n=8 k=8 groups=8 spatial=6,6 window=3,3 strides=1,1 dilations=1,1 pads=0,0 "
            "pads_end=0,0 a=x:f32 b=w:f32 out=conv:f32");
}

// Libraries that offer `count` ways for everything.
Libraries offering(const std::string& name, int64_t count) {
  const auto offers = [=](const format::ProblemDescriptor& problem) -> Result<std::vector<format::LibraryCall>> {
    if (count == 0) return declined("no way");
    std::vector<format::LibraryCall> calls;
    for (int64_t i = 0; i < count; ++i) calls.push_back({name, 130100, i, problem, {}});
    return calls;
  };
  return {{name, {130100, offers}}};
}

TEST(Libraries, AreCandidatesWhereTheyAreInstalled) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  const te::Program program =
      product_with(kBias + stage("y", "f16", "cast<f16>(max(cast<f32>(biased[i0, i1]), 0:f32))"), "y");
  // Templates may join too, where this machine has some.
  const auto of_library = [](const auto& row) { return row.family == "cublaslt"; };
  std::vector<Decline> declines;
  EXPECT_TRUE(std::ranges::none_of(joining_candidates(t.families, {program, {"x1"}}, t.info, &declines), of_library));
  const auto rejection = std::ranges::find_if(declines, of_library);
  ASSERT_NE(rejection, declines.end());
  EXPECT_NE(rejection->reason.find("not installed"), std::string::npos);
  const GroupTask task{program, {"x1"}, offering("cublaslt", 5)};
  Candidates joined = joining_candidates(t.families, task, t.info, &declines);
  std::erase_if(joined, [&](const Construction& c) { return !of_library(c); });
  ASSERT_EQ(joined.size(), 5U);
  EXPECT_EQ(joined[2].family, "cublaslt");
  EXPECT_EQ(to_string(joined[2].schedule.primitives().back().implementation).substr(0, 29),
            "cublaslt 130100 2 gemm batch=");
  for (const Construction& c : construct(t.families, task, t.info, nullptr)) EXPECT_NE(c.family, "cublaslt");
  for (size_t f = 1; f < t.families.size(); ++f)
    EXPECT_FALSE(t.families[f - 1].kind == FamilyKind::kJoins && t.families[f].kind == FamilyKind::kOwns);
}

TEST(Libraries, DeclineWhatTheyDoNot) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  const auto reason = [&](const te::Program& program) {
    const Result<Candidates> built = construct_cublaslt({program, {"x1"}, offering("cublaslt", 1)}, t.info);
    return built.ok() ? "it takes them" : built.reason();
  };
  EXPECT_EQ(reason(convolution(1, "((1 <= i1) && (i1 < 13))")), "no product of matrices but convolution");
  EXPECT_EQ(reason(product_with(stage("y", "f16", "cast<f16>(sigmoid(sum[i0, i1]))"), "y")),
            "it has no such activation, or adds nothing behind it");
  EXPECT_EQ(reason(product_with(stage("y", "f32", "(sum[i0, i1] + cast<f32>(x2[i1]))"), "y")),
            "x2 is of another type than the result");
  EXPECT_EQ(reason(product_with(stage("y", "f32", "max(sum[i0, i1], 0:f32)"), "y")), "it takes them");
}

TEST(Libraries, CudnnTakesConvolutions) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  const te::Program program = convolution(2, "((1 <= i1) && (i1 < 13))");
  const auto build = [&](const te::Program& p, int64_t ways) {
    return construct_cudnn({p, {"x1", "x2"}, offering("cudnn", ways)}, t.info);
  };
  const Result<Candidates> built = build(program, 3);
  ASSERT_TRUE(built.ok()) << built.reason();
  ASSERT_EQ(built->size(), 3U);
  EXPECT_EQ(to_string((*built)[1].schedule.primitives().back().implementation).substr(0, 34),
            "cudnn 130100 1 convolution batch=2");
  EXPECT_EQ((*built)[1].trace, (std::vector<std::string>{"number 1 of what cudnn's heuristics name"}));
  check_candidate({program, {"x1", "x2"}}, t, (*built)[0], 1e-2);
  EXPECT_EQ(build(program, 0).reason(), "no way");
  EXPECT_EQ(build(product_with(stage("y", "f32", "max(sum[i0, i1], 0:f32)"), "y"), 1).reason(),
            "neither convolution nor attention but a product of matrices");
  EXPECT_NE(construct_cudnn({program, {"x1"}, {}}, t.info).reason().find("not installed"), std::string::npos);
}

}  // namespace
}  // namespace tw::construct
