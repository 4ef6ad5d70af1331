// The dynamic scale of a loss: it changes nothing that is finite, and finds a value by itself.
#include "train/loss_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/train/reference_steps.h"
#include "tests/train/trainer.h"

namespace tw::train {
namespace {

frontend::ImportResult model() {
  return model_of(R"(graph one {
  input x : f32[4, 3]
  const w : f32[3, 2] = [0.5, -0.25, 1.0, 0.75, -0.5, 0.125]
  y : f32[4, 2] = matmul(x, w)
  output y
})",
                  {"w"});
}

TrainOptions options(std::optional<LossScale> scale) {
  TrainOptions chosen;
  chosen.loss = Loss::kMeanSquared;
  chosen.optimizer = {.method = Method::kAdam};
  chosen.scale = scale;
  return chosen;
}

std::vector<RefTensor> batch(int64_t seed) {
  return {floats({4, 3}, numbers(12, seed)), floats({4, 2}, numbers(8, seed + 40)), floats({}, {0.05})};
}

TEST(LossScale, ChangesNoStep) {
  ReferenceSteps scaled(model(), options(LossScale{})), plain(model(), options({}));
  for (int t = 0; t < 5; ++t) EXPECT_NEAR(scaled.run(batch(t)), plain.run(batch(t)), 1e-12);
  for (const char* name : {"w", "w.m", "w.v"}) {
    for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(scaled.state(name)[i], plain.state(name)[i], 1e-12) << name;
  }
  EXPECT_EQ(scaled.state("loss_scale")[0], 65536);
  EXPECT_EQ(scaled.state("good_steps")[0], 5);
  EXPECT_FALSE(plain.has("loss_scale"));
}

TEST(LossScale, IsTakenOutOfGradients) {
  ReferenceSteps scaled(model(), options(LossScale{})), plain(model(), options({}));
  const std::vector<RefTensor> inputs = {batch(1)[0], batch(1)[1]};
  const RefTensor got = scaled.call("grads", inputs).at(1), want = plain.call("grads", inputs).at(1);
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(got.floats[i], want.floats[i], 1e-12);
}

TEST(LossScale, GrowsAfterGoodStepsAndHalvesAfterABadOne) {
  ReferenceSteps steps(model(), options(LossScale{.initial = 8, .good_steps = 3}));
  std::vector<RefTensor> bad = batch(9);
  bad[0].floats[0] = std::numeric_limits<double>::infinity();
  const std::string order = "gggbggbgggggg";
  const std::vector<double> scales = {8, 8, 16, 8, 8, 8, 4, 4, 4, 8, 8, 8, 16},
                            counts = {1, 2, 0, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0};
  for (size_t t = 0; t < order.size(); ++t) {
    steps.run(order[t] == 'b' ? bad : batch(static_cast<int64_t>(t)));
    EXPECT_EQ(steps.state("loss_scale")[0], scales[t]) << t;
    EXPECT_EQ(steps.state("good_steps")[0], counts[t]) << t;
  }
  EXPECT_EQ(steps.state("skipped_steps")[0], 2);
  EXPECT_EQ(steps.state("step")[0], 11) << "of those that were made";
}

TEST(LossScale, StaysWhereItCanBeLeftAgain) {
  std::vector<RefTensor> bad = batch(9);
  bad[0].floats[0] = std::numeric_limits<double>::quiet_NaN();
  ReferenceSteps steps(model(), options(LossScale{.initial = 0x1p-22, .good_steps = 1}));
  for (int t = 0; t < 5; ++t) steps.run(bad);
  EXPECT_EQ(steps.state("loss_scale")[0], 0x1p-24);
  steps.run(batch(1));
  EXPECT_EQ(steps.state("loss_scale")[0], 0x1p-23);
  for (int t = 0; t < 60; ++t) steps.run(batch(1));
  EXPECT_EQ(steps.state("loss_scale")[0], 0x1p24);
}

}  // namespace
}  // namespace tw::train
