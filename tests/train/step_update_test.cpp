// What a step leaves in its states, beside formulas written out: clipping, decay by name, several runs of a step,
// averages, steps that are left out.
#include "train/step_update.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/train/reference_steps.h"
#include "tests/train/trainer.h"

namespace tw::train {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kTolerance = 1e-6;  // constants of the graph are f32

frontend::ImportResult linear() { return model_of(kLinear, {"w", "b"}); }

TrainOptions of(Optimizer optimizer) {
  TrainOptions options;
  options.loss = Loss::kMeanSquared;
  options.optimizer = optimizer;
  return options;
}

std::vector<RefTensor> batch(int64_t seed, double rate = 0.05) {
  return {floats({4, 3}, numbers(12, seed)), floats({4, 2}, numbers(8, seed + 40)), floats({}, {rate})};
}

// Gradients of w and b, one behind the other.
std::vector<double> gradients(const std::vector<double>& p, const std::vector<RefTensor>& inputs) {
  std::vector<double> g(8);
  for (int n = 0; n < 4; ++n) {
    for (int k = 0; k < 2; ++k) {
      double y = p[6 + k];
      for (int c = 0; c < 3; ++c) y += inputs[0].floats[n * 3 + c] * p[c * 2 + k];
      const double dy = 2 * (y - inputs[1].floats[n * 2 + k]) / 8;
      g[6 + k] += dy;
      for (int c = 0; c < 3; ++c) g[c * 2 + k] += inputs[0].floats[n * 3 + c] * dy;
    }
  }
  return g;
}

std::vector<double> parameters(ReferenceSteps& steps) {
  std::vector<double> all = steps.state("w");
  all.insert(all.end(), steps.state("b").begin(), steps.state("b").end());
  return all;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], kTolerance * (1 + std::abs(want[i]))) << i;
}

double norm(const std::vector<double>& x, size_t first, size_t end) {
  double sum = 0;
  for (size_t i = first; i < end; ++i) sum += x[i] * x[i];
  return std::sqrt(sum);
}

TEST(StepUpdate, ClipsTheNormOfAllGradients) {
  for (const double clip : {0.25, 100.0}) {
    TrainOptions options = of({.method = Method::kSgd});
    options.clip_norm = clip;
    ReferenceSteps steps(linear(), options);
    std::vector<double> want = parameters(steps);
    for (int t = 0; t < 4; ++t) {
      const std::vector<double> g = gradients(want, batch(t));
      const double factor = std::min(1.0, clip / (norm(g, 0, 8) + 1e-6));
      EXPECT_EQ(factor == 1, clip == 100) << "the case is none otherwise";
      for (size_t i = 0; i < 8; ++i) want[i] -= 0.05 * factor * g[i];
      steps.run(batch(t));
    }
    expect_near(parameters(steps), want);
  }
}

TEST(StepUpdate, DecaysWhatIsNotExcepted) {
  for (const Method method : {Method::kSgd, Method::kAdam, Method::kAdamW, Method::kLamb}) {
    TrainOptions options = of({.method = method, .weight_decay = 0.5});
    options.not_decayed = {"b*"};
    TrainOptions plain = options;
    plain.optimizer.weight_decay = 0;
    TrainOptions all = options;
    all.not_decayed = {};
    ReferenceSteps some(linear(), options), none(linear(), plain), every(linear(), all);
    for (ReferenceSteps* steps : {&some, &none, &every}) steps->run(batch(1));
    EXPECT_EQ(some.state("b"), none.state("b"));
    EXPECT_NE(every.state("b"), none.state("b"));
    EXPECT_NE(some.state("w"), none.state("w"));
    expect_near(some.state("w"), every.state("w"));
  }
}

// You et al. 2020, algorithm 2, written out.
TEST(StepUpdate, Lamb) {
  const Optimizer o{.method = Method::kLamb, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.125};
  ReferenceSteps steps(linear(), of(o));
  std::vector<double> p = parameters(steps), m(8), v(8);
  for (int t = 1; t <= 5; ++t) {
    const std::vector<double> g = gradients(p, batch(t));
    std::vector<double> u(8);
    for (size_t i = 0; i < 8; ++i) {
      m[i] = o.beta1 * m[i] + (1 - o.beta1) * g[i];
      v[i] = o.beta2 * v[i] + (1 - o.beta2) * g[i] * g[i];
      u[i] = m[i] / (1 - std::pow(o.beta1, t)) / (std::sqrt(v[i] / (1 - std::pow(o.beta2, t))) + o.epsilon);
      u[i] += o.weight_decay * p[i];
    }
    const double of_w = norm(p, 0, 6) / norm(u, 0, 6), of_b = norm(p, 6, 8) / norm(u, 6, 8);
    for (size_t i = 0; i < 8; ++i) p[i] -= 0.05 * (i < 6 ? of_w : of_b) * u[i];
    steps.run(batch(t));
  }
  expect_near(parameters(steps), p);
}

TEST(StepUpdate, LambOfAParameterOfZerosMoves) {
  std::string text = kLinear;
  text.replace(text.find("[0.25, -0.5]"), 12, "[0.0, 0.0]");
  ReferenceSteps steps(model_of(text, {"w", "b"}), of({.method = Method::kLamb}));
  steps.run(batch(1));
  EXPECT_NEAR(std::abs(steps.state("b")[0]), 0.05, 1e-4) << "the ratio of norms is 1 there";
}

TEST(StepUpdate, SeveralRunsAreAStepOfAllTheirSamples) {
  TrainOptions options = of({.method = Method::kAdamW, .weight_decay = 0.1});
  options.runs_of_step = 3;
  options.clip_norm = 0.5;
  ReferenceSteps parts(linear(), options);
  std::string text = kLinear;
  for (size_t at = text.find("[4, "); at != std::string::npos; at = text.find("[4, ")) text.replace(at, 4, "[12, ");
  options.runs_of_step = 1;
  ReferenceSteps whole(model_of(text, {"w", "b"}), options);
  for (int t = 0; t < 4; ++t) {
    std::vector<RefTensor> all = {floats({12, 3}, {}), floats({12, 2}, {}), floats({}, {0.05})};
    const std::vector<double> before = parameters(parts);
    for (int k = 0; k < 3; ++k) {
      EXPECT_EQ(parameters(parts), before) << "run " << k;
      EXPECT_EQ(parts.state("run_of_step")[0], k);
      const std::vector<RefTensor> own = batch(3 * t + k);
      for (size_t i : {0, 1}) all[i].floats.insert(all[i].floats.end(), own[i].floats.begin(), own[i].floats.end());
      parts.run(own);
    }
    whole.run(all);
    expect_near(parameters(parts), parameters(whole));
    EXPECT_EQ(parts.state("step")[0], t + 1);
    EXPECT_EQ(parts.state("w.sum"), std::vector<double>(6)) << "the next step begins anew";
  }
}

TEST(StepUpdate, AveragesFollowParameters) {
  TrainOptions options = of({.method = Method::kSgd, .momentum = 0.5});
  options.average = 0.75;
  ReferenceSteps steps(linear(), options);
  EXPECT_EQ(steps.state("w.average"), steps.state("w")) << "they begin there";
  std::vector<double> want = steps.state("w");
  for (int t = 0; t < 6; ++t) {
    steps.run(batch(t));
    for (size_t i = 0; i < 6; ++i) want[i] = 0.75 * want[i] + 0.25 * steps.state("w")[i];
  }
  expect_near(steps.state("w.average"), want);
  const std::vector<RefTensor> inputs = {batch(9)[0], batch(9)[1]};
  const RefTensor y = steps.call("eval", inputs).at(0);
  double first = steps.state("b.average")[0];
  for (int c = 0; c < 3; ++c) first += inputs[0].floats[c] * want[2 * c];
  EXPECT_NEAR(y.floats[0], first, kTolerance) << "evaluation takes the averages";
}

// Each of these makes something of a step that is no number.
TEST(StepUpdate, AStepThatIsNotFiniteIsLeftOut) {
  std::vector<std::vector<RefTensor>> bad(4, batch(7));
  bad[0][0].floats[5] = kNan;
  bad[1][1].floats[0] = std::numeric_limits<double>::infinity();
  bad[2][2].floats[0] = kNan;
  bad[3][2].floats[0] = -std::numeric_limits<double>::infinity();
  TrainOptions options = of({.method = Method::kAdam, .weight_decay = 0.1});
  options.runs_of_step = 2;
  options.average = 0.5;
  ReferenceSteps disturbed(linear(), options), undisturbed(linear(), options);
  for (int t = 0; t < 6; ++t) {
    const auto before = disturbed.states();
    if (t < 4) {
      EXPECT_TRUE(std::isnan(disturbed.run(bad[t]))) << t;
      for (const auto& [name, value] : disturbed.states()) {
        if (name != "skipped_steps") EXPECT_EQ(value.floats, before.at(name).floats) << name;
      }
      EXPECT_EQ(disturbed.state("skipped_steps")[0], t + 1);
    }
    EXPECT_EQ(disturbed.run(batch(t)), undisturbed.run(batch(t)));
  }
  for (const auto& [name, value] : undisturbed.states()) {
    if (name != "skipped_steps") EXPECT_EQ(disturbed.states().at(name).floats, value.floats) << name;
  }
}

TEST(StepUpdate, NobodyLooksWhereThatIsSaid) {
  TrainOptions options = of({.method = Method::kSgd});
  options.not_finite = NotFinite::kUsed;
  ReferenceSteps steps(linear(), options);
  EXPECT_FALSE(steps.has("skipped_steps"));
  std::vector<RefTensor> bad = batch(1);
  bad[0].floats[0] = kNan;
  steps.run(bad);
  EXPECT_TRUE(std::isnan(steps.state("w")[0]));
  options.scale = LossScale{};
  EXPECT_NE(refusal(linear(), options).find("loss scale"), std::string::npos);
}

TEST(StepUpdate, ALearningRateOfZeroMovesNoParameter) {
  ReferenceSteps steps(linear(), of({.method = Method::kAdamW, .weight_decay = 0.1}));
  const std::vector<double> before = parameters(steps);
  EXPECT_TRUE(std::isfinite(steps.run(batch(3, 0))));
  EXPECT_EQ(parameters(steps), before);
  EXPECT_NE(steps.state("w.m"), std::vector<double>(6)) << "the moments have seen the batch";
  EXPECT_EQ(steps.state("step")[0], 1);
}

}  // namespace
}  // namespace tw::train
