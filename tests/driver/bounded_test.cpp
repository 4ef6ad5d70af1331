// Bounds of verify hold what rounding does, and not much more.
#include "artefact/bounded.h"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/parser.h"
#include "ops/list.h"

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

}  // namespace
}  // namespace tw::artefact
