// Compiled steps in f16 and bf16: what is f32 all the same, and steps that leave the range of f16.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/reference_steps.h"
#include "tests/train/trainer.h"

namespace tw::train {
namespace {

frontend::ImportResult network() { return model_of(kClassifier, {"w", "c", "u"}); }

TrainOptions options_for(DataType dtype, Optimizer optimizer) {
  TrainOptions options;
  options.optimizer = optimizer;
  if (dtype == DataType::f16()) options.scale = LossScale{};
  return options;
}

std::vector<RefTensor> batch(int64_t seed, double rate) {
  return {floats({4, 3}, numbers(12, seed)), integers({4}, {seed % 3, 0, 1, 2}), floats({}, {rate})};
}

TEST(NarrowStep, FollowsTheWideOne) {
  for (const DataType dtype : {DataType::f16(), DataType::bf16()}) {
    const TrainOptions options = options_for(dtype, {.method = Method::kAdamW, .weight_decay = 0.1});
    Trainer narrow(network(), options, dtype);
    ReferenceSteps wide(network(), options);
    const double tolerance = dtype == DataType::f16() ? 4e-3 : 3e-2;
    for (int t = 0; t < 20; ++t) EXPECT_NEAR(narrow.step(batch(t % 3, 0.01)), wide.run(batch(t % 3, 0.01)), tolerance);
    for (const char* name : {"w", "w.m", "u.v", "step", "skipped_steps"}) {
      EXPECT_EQ(narrow.tensor(name).type.type, DataType::f32()) << name;
      const std::vector<double> got = narrow.state(name), want = wide.state(name);
      for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 4 * tolerance) << name;
    }
  }
}

// Each change is less than half of the distance to the next number of 16 bits.
TEST(NarrowStep, WeightsAddUpWhatSixteenBitsDoNotHold) {
  for (const DataType dtype : {DataType::f16(), DataType::bf16()}) {
    Trainer steps(network(), options_for(dtype, {.method = Method::kAdam}), dtype);
    ReferenceSteps wide(network(), options_for(dtype, {.method = Method::kAdam}));
    for (int t = 0; t < 30; ++t) {
      steps.step(batch(0, 1e-5));
      wide.run(batch(0, 1e-5));
    }
    for (size_t i = 0; i < 12; ++i) {
      const double moved = wide.state("u")[i] -
                           std::vector<double>{0.5, -0.25, 0.5, 0.75, -0.5, 0.125, -1.0, 0.5, 0.25, 0.5, -0.75, 1.0}[i];
      EXPECT_NEAR(steps.state("u")[i], wide.state("u")[i], 0.1 * std::abs(moved) + 1e-6) << i;
    }
  }
}

TEST(NarrowStep, FindsAScaleWhereGradientsLeaveTheRange) {
  const TrainOptions options = options_for(DataType::f16(), {.method = Method::kSgd});
  Trainer steps(network(), options, DataType::f16());
  std::vector<RefTensor> large = batch(1, 1e-7);
  for (double& x : large[0].floats) x *= 200;
  const std::vector<double> before = steps.state("w");
  EXPECT_TRUE(std::isnan(steps.step(large)));
  EXPECT_EQ(steps.state("w"), before);
  EXPECT_EQ(steps.state("loss_scale")[0], 32768);
  int tries = 0;
  while (std::isnan(steps.step(large)) && tries < 20) ++tries;
  EXPECT_LT(tries, 20);
  EXPECT_EQ(steps.state("skipped_steps")[0], tries + 1);
  EXPECT_NE(steps.state("w"), before);
}

// Gradients of 1e-8, which are 0 in f16.
TEST(NarrowStep, KeepsGradientsThatF16DoesNotHold) {
  const char* const text = R"(graph small {
  input x : f32[1, 2]
  const w : f32[2, 2] = [1.0, 0.5, -1.0, 0.25]
  const k : f32[2, 1] = [0.0001, 0.0002]
  a : f32[1, 2] = matmul(x, w)
  y : f32[1, 1] = matmul(a, k)
  output y
})";
  TrainOptions options = options_for(DataType::f16(), {.method = Method::kSgd});
  options.loss = Loss::kOutput;
  options.trained = {"w"};
  Trainer steps(model_of(text, {"w", "k"}), options, DataType::f16());
  steps.step({floats({1, 2}, {1e-4, 2e-4}), floats({}, {1e6})});
  EXPECT_NEAR(1 - steps.state("w")[0], 1e-2, 1e-4);
  EXPECT_NEAR(0.25 - steps.state("w")[3], 4e-2, 4e-4);
}

}  // namespace
}  // namespace tw::train
