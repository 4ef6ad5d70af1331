// Bounds of verify hold what rounding does, and not much more.
#include "artefact/bounded.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <new>

#include "driver/tune/tolerance.h"
#include "ops/list.h"
#include "support/random.h"
#include "tests/harness/allocations/counter.h"

namespace tw::artefact {
namespace {

// x + bias rounds alike in every row of a column: its sum is off by much more than independent roundings would be.
TEST(Bounded, RoundingsOfSummedHalvesMayBeAlike) {
  constexpr int64_t kRows = 500, kColumns = 7;
  const graph::Graph body = graph::parse_graph(R"(graph g {
  input x : f32[500, 7]
  input bias : f32[7]
  y : f32[500, 7] = add(x, bias) as y
  half : f16[500, 7] = cast(y) {to = "f16"} as half
  wide : f32[500, 7] = cast(half) {to = "f32"} as wide
  s : f32[7] = reduce_sum(wide) {axes = [0], keepdims = 0} as s
  output s
})",
                                               {});
  graph::RefTensor x = graph::RefTensor::zeros({DataType::f32(), {kRows, kColumns}});
  graph::RefTensor bias = graph::RefTensor::zeros({DataType::f32(), {kColumns}});
  for (size_t i = 0; i < x.floats.size(); ++i) x.floats[i] = 1 + static_cast<double>(i % 32) / 64;
  for (double& b : bias.floats) b = std::ldexp(3.0, -13);
  const Bounded bounded = evaluate_bounded(body, ops::all_ops(), {x, bias}, 3);
  for (size_t c = 0; c < kColumns; ++c) {
    double rounded = 0, exact = 0;
    for (size_t r = 0; r < kRows; ++r) {
      const double sum = x.floats[r * kColumns + c] + bias.floats[c];
      rounded += std::nearbyint(sum * 1024) / 1024;
      exact += sum;
    }
    EXPECT_GT(std::fabs(rounded - exact), 4 * std::sqrt(kRows) * std::ldexp(1.0, -12)) << "not alike";
    EXPECT_LE(std::fabs(rounded - exact), bounded.bounds[0][c]);
    EXPECT_LT(bounded.bounds[0][c], 2) << "two terms";
  }
}

// Where two batch norms cancel, what each of their operations rounds is much of the sum.
TEST(Bounded, BatchNormsRoundInEachOfTheirOperations) {
  constexpr int64_t kRows = 1 << 17;
  const graph::Graph body = graph::parse_graph(R"(graph g {
  input x : f32[131072, 1]
  input scale : f32[1]
  input bias : f32[1]
  input mean : f32[1]
  input var : f32[1]
  input less : f32[1]
  input other : f32[1]
  a : f32[131072, 1] = batch_norm(x, scale, bias, mean, var) {epsilon = 1e-5} as a
  c : f32[131072, 1] = batch_norm(x, less, bias, mean, other) {epsilon = 1e-5} as c
  d : f32[131072, 1] = add(a, c) as d
  y : f32[131072, 1] = relu(d) as y
  output y
})",
                                               {});
  const auto one = [](float value) {
    graph::RefTensor t = graph::RefTensor::zeros({DataType::f32(), {1}});
    t.floats[0] = value;
    return t;
  };
  const float scale = 1.3F, bias = 0.01F, mean = 0.02F, var = 0.7F;
  graph::RefTensor x = graph::RefTensor::zeros({DataType::f32(), {kRows, 1}});
  for (size_t i = 0; i < x.floats.size(); ++i) {
    const float at = static_cast<float>(i) / kRows;
    x.floats[i] = i % 32 == 0 ? 8 + at : at / 8;  // few are large
  }
  const float less = -1.3F, other = 0.7001F;
  const Bounded bounded =
      evaluate_bounded(body, ops::all_ops(), {x, one(scale), one(bias), one(mean), one(var), one(less), one(other)}, 3);
  const auto normalized = [&](float v, float by, float variance) {
    return (v - mean) * (by / std::sqrt(variance + 1e-5F)) + bias;
  };
  for (size_t i = 0; i < x.floats.size(); ++i) {
    const auto v = static_cast<float>(x.floats[i]);
    const double got = std::max(normalized(v, scale, var) + normalized(v, less, other), 0.0F);
    ASSERT_LE(std::fabs(got - bounded.values[0].floats[i]), bounded.bounds[0][i]) << i;
    ASSERT_LT(bounded.bounds[0][i], 5e-5) << i;
  }
}

// Equal terms round alike, at each step of a sum: more than independent roundings would come to.
TEST(Bounded, EqualTermsRoundAlike) {
  constexpr int64_t kTerms = 512;
  const graph::Graph body = graph::parse_graph(R"(graph g {
  input x : f32[512, 40]
  s : f32[40] = reduce_sum(x) {axes = [0], keepdims = 0} as s
  output s
})",
                                               {});
  graph::RefTensor x = graph::RefTensor::zeros({DataType::f32(), {kTerms, 40}});
  for (size_t i = 0; i < x.floats.size(); ++i) x.floats[i] = 0.17F + 0.001F * static_cast<float>(i % 40);
  const Bounded alike = evaluate_bounded(body, ops::all_ops(), {x}, 3);
  double worst = 0;
  for (size_t c = 0; c < 40; ++c) {
    float sum = 0;
    for (int64_t r = 0; r < kTerms; ++r) sum += static_cast<float>(x.floats[c]);
    const double off = std::fabs(sum - alike.values[0].floats[c]);
    EXPECT_LE(off, alike.bounds[0][c]) << c;
    worst = std::max(worst, off / alike.values[0].floats[c]);
  }
  EXPECT_GT(worst, 4 * std::sqrt(kTerms) * std::ldexp(1.0, -24)) << "not alike";
  for (size_t i = 0; i < x.floats.size(); ++i) x.floats[i] *= 1 + static_cast<double>(i) / 1e5;
  EXPECT_LT(evaluate_bounded(body, ops::all_ops(), {x}, 3).bounds[0][0], alike.bounds[0][0] / 8);
}

// Sums and products over positions of which there are two kinds, as of ids that are 0 or 1.
TEST(Bounded, TermsOfTwoValuesRoundAlike) {
  constexpr int64_t kTerms = 2048, kColumns = 40;
  const graph::Graph body = graph::parse_graph(R"(graph g {
  input x : f32[2048, 40]
  input each : f32[1, 2048]
  s : f32[40] = reduce_sum(x) {axes = [0], keepdims = 0} as s
  q : f32[40] = reduce_sum_square(x) {axes = [0], keepdims = 0} as q
  p : f32[1, 40] = matmul(each, x) as p
  output s, q, p
})",
                                               {});
  graph::RefTensor x = graph::RefTensor::zeros({DataType::f32(), {kTerms, kColumns}});
  graph::RefTensor each = graph::RefTensor::zeros({DataType::f32(), {1, kTerms}});
  for (size_t i = 0; i < x.floats.size(); ++i) {
    const size_t kind = i / kColumns % 64 == 5 ? 1 : 0, column = i % kColumns;
    x.floats[i] = 0.17F + 0.013F * static_cast<float>(column) + 0.3F * static_cast<float>(kind);
  }
  for (double& e : each.floats) e = 1.0F / kTerms;
  const Bounded bounded = evaluate_bounded(body, ops::all_ops(), {x, each}, 3);
  double worst[3] = {0, 0, 0};
  for (size_t c = 0; c < kColumns; ++c) {
    float sums[3] = {0, 0, 0};
    for (size_t r = 0; r < kTerms; ++r) {
      const auto v = static_cast<float>(x.floats[r * kColumns + c]);
      sums[0] += v;
      sums[1] += v * v;
      sums[2] += static_cast<float>(each.floats[r]) * v;
    }
    for (size_t k = 0; k < 3; ++k) {
      const double off = std::fabs(sums[k] - bounded.values[k].floats[c]);
      EXPECT_LE(off, bounded.bounds[k][c]) << k << " " << c;
      worst[k] = std::max(worst[k], off / bounded.values[k].floats[c]);
    }
  }
  for (const double w : worst) EXPECT_GT(w, 4 * std::sqrt(kTerms) * std::ldexp(1.0, -24)) << "not alike";
}

// The largest bound in roundings of the largest result.
double roundings(const std::vector<double>& bounds, const graph::RefTensor& results) {
  return std::ranges::max(bounds) / (driver::kSafety * std::ldexp(1.0, -24) * std::ranges::max(results.floats));
}

// Adding 0 rounds nothing, however many zeros a ReLU leaves.
TEST(Bounded, ZerosOfASumRoundNothing) {
  constexpr int64_t kTerms = 50176, kColumns = 5;
  const graph::Graph body = graph::parse_graph(R"(graph g {
  input x : f32[50176, 5]
  m : f32[5] = reduce_mean(x) {axes = [0], keepdims = 0} as m
  output m
})",
                                               {});
  graph::RefTensor x = graph::RefTensor::zeros({DataType::f32(), {kTerms, kColumns}});
  for (size_t i = 0; i < x.floats.size(); ++i)
    x.floats[i] = std::max(0.0F, static_cast<float>(split_mix(i) >> 40) / 0x1p24F - 0.5F);
  const Bounded bounded = evaluate_bounded(body, ops::all_ops(), {x}, 3);
  for (size_t c = 0; c < kColumns; ++c) {
    float sum = 0;
    for (size_t r = 0; r < kTerms; ++r) sum += static_cast<float>(x.floats[r * kColumns + c]);
    EXPECT_LE(std::fabs(sum / kTerms - bounded.values[0].floats[c]), bounded.bounds[0][c]) << c;
  }
  EXPECT_LT(roundings(bounded.bounds[0], bounded.values[0]), 2 * std::sqrt(kTerms));
}

// The squares of zeros neither.
TEST(Bounded, ZerosOfARootMeanSquareRoundNothing) {
  constexpr int64_t kLength = 4096;
  const graph::Graph body = graph::parse_graph(R"(graph g {
  input x : f32[3, 4096]
  input scale : f32[4096]
  y : f32[3, 4096] = rms_norm(x, scale) {axis = -1, epsilon = 1e-5} as y
  output y
})",
                                               {});
  graph::RefTensor x = graph::RefTensor::zeros({DataType::f32(), {3, kLength}});
  graph::RefTensor scale = graph::RefTensor::zeros({DataType::f32(), {kLength}});
  for (size_t i = 0; i < x.floats.size(); ++i)
    x.floats[i] = std::max(0.0F, static_cast<float>(split_mix(i) >> 40) / 0x1p24F - 0.5F);
  for (double& s : scale.floats) s = 1;
  const Bounded bounded = evaluate_bounded(body, ops::all_ops(), {x, scale}, 3);
  EXPECT_LT(roundings(bounded.bounds[0], bounded.values[0]), 2 * std::sqrt(kLength));
}

// Steps of a product that are padding: a column of zeros times a row of zeros.
TEST(Bounded, ZeroStepsOfAProductRoundNothing) {
  constexpr int64_t kSteps = 1024;
  const graph::Graph body = graph::parse_graph(R"(graph g {
  input a : f32[3, 1024]
  input b : f32[1024, 40]
  p : f32[3, 40] = matmul(a, b) as p
  output p
})",
                                               {});
  graph::RefTensor a = graph::RefTensor::zeros({DataType::f32(), {3, kSteps}});
  graph::RefTensor b = graph::RefTensor::zeros({DataType::f32(), {kSteps, 40}});
  for (size_t i = 0; i < a.floats.size(); ++i)
    a.floats[i] = i % 2 == 1 ? 0 : 0.5F + static_cast<float>(split_mix(i) >> 40) / 0x1p24F;
  for (size_t i = 0; i < b.floats.size(); ++i)
    b.floats[i] = i / 40 % 2 == 1 ? 0 : 0.5F + static_cast<float>(split_mix(~i) >> 40) / 0x1p24F;
  const Bounded bounded = evaluate_bounded(body, ops::all_ops(), {a, b}, 3);
  EXPECT_LT(roundings(bounded.bounds[0], bounded.values[0]), 2 * std::sqrt(kSteps));
}

// What a mean is off by is large beside a small spread.
TEST(Bounded, NormsHaveTheErrorsOfTheirStatistics) {
  constexpr int64_t kLength = 2048;
  const graph::Graph body = graph::parse_graph(R"(graph g {
  input x : f32[6, 2048]
  input scale : f32[2048]
  y : f32[6, 2048] = layer_norm(x, scale) {axis = -1, epsilon = 1e-5} as y
  output y
})",
                                               {});
  graph::RefTensor x = graph::RefTensor::zeros({DataType::f32(), {6, kLength}});
  graph::RefTensor scale = graph::RefTensor::zeros({DataType::f32(), {kLength}});
  for (size_t i = 0; i < x.floats.size(); ++i)
    x.floats[i] = 0.7F + 0.1F * static_cast<float>(i / kLength) + (i % 2 == 0 ? 0.0625F : 0.0F);
  for (double& s : scale.floats) s = 1.5;
  const Bounded bounded = evaluate_bounded(body, ops::all_ops(), {x, scale}, 3);
  double worst = 0;
  for (size_t r = 0; r < 6; ++r) {
    float sum = 0, squares = 0;
    const auto element = [&](size_t i) { return static_cast<float>(x.floats[r * kLength + i]); };
    for (size_t i = 0; i < kLength; ++i) sum += element(i);
    const float mean = sum / kLength;
    for (size_t i = 0; i < kLength; ++i) squares += (element(i) - mean) * (element(i) - mean);
    const float root = 1 / std::sqrt(squares / kLength + 1e-5F);
    for (size_t i = 0; i < kLength; ++i) {
      const double off = std::fabs((element(i) - mean) * root * 1.5F - bounded.values[0].floats[r * kLength + i]);
      ASSERT_LE(off, bounded.bounds[0][r * kLength + i]) << r << " " << i;
      worst = std::max(worst, off);
    }
  }
  EXPECT_GT(worst, 32 * std::ldexp(1.0, -24) * 1.5) << "what a norm's own operations round";
}

// A quotient next to the middle of two steps may be either, here and in what reads it; one farther off may not.
TEST(Bounded, QuantizedNumbersMayMoveAStepWhereTheirQuotientIsBetweenTwo) {
  const graph::Graph body = graph::parse_graph(R"(graph g {
  input x : f32[4]
  input scale : f32[1]
  input zero : f32[1]
  a : f32[4] = div(x, scale) as a
  b : f32[4] = round(a) as b
  c : f32[4] = add(b, zero) as c
  d : f32[4] = clip(c) {min = 0.0, max = 255.0} as d
  q : u8[4] = cast(d) {to = "u8"} as q
  e : f32[4] = cast(q) {to = "f32"} as e
  y : f32[4] = mul(e, scale) as y
  output q, y
})",
                                               {});
  const auto tensor = [](std::vector<double> values) {
    graph::RefTensor t = graph::RefTensor::zeros({DataType::f32(), {static_cast<int64_t>(values.size())}});
    t.floats = std::move(values);
    return t;
  };
  const double near = std::ldexp(1.0, -20), step = 2;
  const graph::RefTensor x = tensor({step * (71.5 + near), step * (71.5 - near), step * 71.4, step * 90});
  const Bounded bounded = evaluate_bounded(body, ops::all_ops(), {x, tensor({step}), tensor({10})}, 3);
  EXPECT_EQ(bounded.values[0].ints, (std::vector<int64_t>{82, 81, 81, 100}));
  EXPECT_EQ(bounded.bounds[0], (std::vector<double>{1, 1, 0, 0}));
  EXPECT_GE(bounded.bounds[1][0], step);
  EXPECT_GE(bounded.bounds[1][1], step);
}

// Random errors of two operations cancel each other somewhere: many numbers that are next to an edge.
TEST(Bounded, EachNumberNextToAnEdgeMayLieOnItsOtherSide) {
  constexpr int64_t kMany = 4096;
  const graph::Graph body = graph::parse_graph(R"(graph g {
  input a : f32[4096]
  input b : f32[4096]
  input c : f32[4096]
  input scale : f32[4096]
  p : f32[4096] = mul(a, b) as p
  s : f32[4096] = add(p, c) as s
  r : f32[4096] = round(s) as r
  d : f32[4096] = clip(r) {min = 0.0, max = 255.0} as d
  q : u8[4096] = cast(d) {to = "u8"} as q
  e : f32[4096] = cast(q) {to = "f32"} as e
  y : f32[4096] = mul(e, scale) as y
  output q, y
})",
                                               {});
  std::vector<graph::RefTensor> inputs(4, graph::RefTensor::zeros({DataType::f32(), {kMany}}));
  for (size_t i = 0; i < kMany; ++i) {
    const float a = 7 + static_cast<float>(i * 37 % 1013) / 1013, b = 71.5F / a - static_cast<float>(i % 97) / 97000;
    inputs[0].floats[i] = a;
    inputs[1].floats[i] = b;
    inputs[2].floats[i] = 71.5F - a * b;
    inputs[3].floats[i] = 0.01F + static_cast<float>(i) / 1e6F;
  }
  const Bounded bounded = evaluate_bounded(body, ops::all_ops(), inputs, 3);
  int64_t moved = 0;
  for (size_t i = 0; i < kMany; ++i) {
    const auto at = [&](size_t k) { return static_cast<float>(inputs[k].floats[i]); };
    const float product = at(0) * at(1);
    const auto got = static_cast<int64_t>(std::nearbyint(product + at(2)));
    moved += got != bounded.values[0].ints[i];
    ASSERT_LE(std::abs(got - bounded.values[0].ints[i]), bounded.bounds[0][i]) << i;
    ASSERT_LE(bounded.bounds[0][i], 1) << i;
    const float real = static_cast<float>(got) * at(3);
    ASSERT_LE(std::fabs(real - bounded.values[1].floats[i]), bounded.bounds[1][i]) << i;
  }
  EXPECT_GT(moved, 100);
}

// A truth that no error moves makes nothing behind it less certain, nor does one that moves what is not behind it.
TEST(Bounded, OnlyStepsThatMoveWidenWhatDependsOnThem) {
  const graph::Graph body = graph::parse_graph(R"(graph g {
  input x : f32[4]
  input third : f32[1]
  input limit : f32[1]
  input zero : f32[1]
  a : f32[4] = mul(x, third) as a
  n : bool[4] = is_nan(a) as n
  b : f32[4] = where(n, zero, a) as b
  t : bool[4] = greater(a, limit) as t
  c : f32[4] = where(t, zero, a) as c
  output b, c, a
})",
                                               {});
  const auto behind = [&](double limit) {
    std::vector<graph::RefTensor> inputs;
    for (const std::vector<double>& values : {std::vector<double>{0.3F, 0.6F, 0.9F, 1.2F}, {1 / 3.0F}, {limit}, {0}}) {
      inputs.push_back(graph::RefTensor::zeros({DataType::f32(), {std::ssize(values)}}));
      inputs.back().floats = values;
    }
    return evaluate_bounded(body, ops::all_ops(), inputs, 3).is_behind_moved_step;
  };
  EXPECT_EQ(behind(0.5), (std::vector<bool>{false, false, false}));
  EXPECT_EQ(behind(0.2F), (std::vector<bool>{false, true, false}));
}

// A chain of 100 values of 2 MB in f64, of which no two are needed but the last: a sixth of what all of them take.
TEST(Bounded, OfLongModelsOnlyWhatIsReadIsKept) {
  if (!testing::kCountsAllocations) GTEST_SKIP() << "a sanitizer's allocator is in use";
  constexpr rlim_t kRoom = 96 << 20;
  graph::Graph body;
  const graph::ValueId x = body.add_input("x", {DataType::f32(), {256, 1024}});
  graph::ValueId last = x;
  for (int n = 0; n < 100; ++n)
    last = graph::append_node(body, ops::all_ops(), {.op = "neg", .name = "n", .inputs = {last}})[0];
  body.outputs = {last};
  const std::vector<graph::RefTensor> inputs = {graph::RefTensor::zeros(body.value(x).type)};
  const auto evaluate = [&] {
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t limit = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + kRoom;
    const rlimit all{limit, limit};
    setrlimit(RLIMIT_AS, &all);
    try {
      std::exit(evaluate_bounded(body, ops::all_ops(), inputs, 3).values[0].type.elements() == 256 * 1024 ? 0 : 1);
    } catch (const std::bad_alloc&) {
      std::exit(2);
    }
  };
  EXPECT_EXIT(evaluate(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tw::artefact
