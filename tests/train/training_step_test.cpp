// Training steps: what compiled artefacts make of parameters, step by step, beside the formulas written out.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/list.h"
#include "support/error.h"
#include "tests/train/trainer.h"

namespace tw::train {
namespace {

// The same model and optimizer, written out for mean squared error.
struct Written {
  std::vector<double> p = {0.5, -0.25, 1.0, 0.75, -0.5, 0.125, 0.25, -0.5};  // w, then b
  std::vector<double> m = std::vector<double>(8), v = std::vector<double>(8);
  int t = 0;

  double step(const std::vector<double>& x, const std::vector<double>& labels, double rate, const Optimizer& o) {
    std::vector<double> g(p.size());
    double loss = 0;
    for (int n = 0; n < kSamples; ++n) {
      for (int k = 0; k < kOutputs; ++k) {
        double y = p[kFeatures * kOutputs + k];
        for (int c = 0; c < kFeatures; ++c) y += x[n * kFeatures + c] * p[c * kOutputs + k];
        const double off = y - labels[n * kOutputs + k];
        loss += off * off / (kSamples * kOutputs);
        const double dy = 2 * off / (kSamples * kOutputs);
        g[kFeatures * kOutputs + k] += dy;
        for (int c = 0; c < kFeatures; ++c) g[c * kOutputs + k] += x[n * kFeatures + c] * dy;
      }
    }
    ++t;
    for (size_t i = 0; i < p.size(); ++i) update(i, g[i], rate, o);
    return loss;
  }

  void update(size_t i, double g, double rate, const Optimizer& o) {
    const double before = p[i];
    if (o.method != Method::kAdamW) g += o.weight_decay * before;
    if (o.method == Method::kSgd) {
      v[i] = o.momentum * v[i] + g;
      p[i] -= rate * v[i];
      return;
    }
    m[i] = o.beta1 * m[i] + (1 - o.beta1) * g;
    v[i] = o.beta2 * v[i] + (1 - o.beta2) * g * g;
    const double mean = m[i] / (1 - std::pow(o.beta1, t)), square = v[i] / (1 - std::pow(o.beta2, t));
    p[i] -= rate * mean / (std::sqrt(square) + o.epsilon);
    if (o.method == Method::kAdamW) p[i] -= rate * o.weight_decay * before;
  }
};

TEST(TrainingStep, OptimizersDoWhatTheirFormulasSay) {
  const Optimizer optimizers[] = {{.method = Method::kSgd},
                                  {.method = Method::kSgd, .momentum = 0.9, .weight_decay = 0.1},
                                  {.method = Method::kAdam, .weight_decay = 0.1},
                                  {.method = Method::kAdamW, .weight_decay = 0.1}};
  for (const Optimizer& optimizer : optimizers) {
    SCOPED_TRACE(static_cast<int>(optimizer.method));
    Trainer trainer(model_of(kLinear, {"w", "b"}), {Loss::kMeanSquared, optimizer});
    Written written;
    for (int t = 0; t < 12; ++t) {
      const std::vector<double> x = numbers(kSamples * kFeatures, t), labels = numbers(kSamples * kOutputs, t + 40);
      const double rate = t == 5 ? 0 : 0.05;
      const double loss =
          trainer.step({floats({kSamples, kFeatures}, x), floats({kSamples, kOutputs}, labels), floats({}, {rate})});
      EXPECT_NEAR(loss, written.step(x, labels, rate, optimizer), 1e-5) << "step " << t;
    }
    std::vector<double> got = trainer.state("w");
    const std::vector<double> bias = trainer.state("b");
    got.insert(got.end(), bias.begin(), bias.end());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], written.p[i], 2e-5) << i;
  }
}

TEST(TrainingStep, ParametersThatAreNotNamedStay) {
  Trainer trainer(model_of(kLinear, {"w", "b"}), {Loss::kMeanSquared, {.method = Method::kSgd}, {"b*"}});
  const std::vector<RefTensor> inputs = {floats({kSamples, kFeatures}, numbers(12, 1)),
                                         floats({kSamples, kOutputs}, numbers(8, 2)), floats({}, {0.1})};
  const double first = trainer.step(inputs);
  for (int t = 0; t < 30; ++t) trainer.step(inputs);
  EXPECT_LT(trainer.step(inputs), first);
  EXPECT_EQ(trainer.state("b").size(), 2U);
}

TEST(TrainingStep, StatisticsOfBatchNormsAreNoParameters) {
  const char* const text = R"(graph norm {
  input x : f32[4, 3]
  const scale : f32[3] = [1.0, 0.5, 2.0]
  const bias : f32[3] = [0.0, 0.25, 0.5]
  const mean : f32[3] = [0.5, -0.25, 1.0]
  const variance : f32[3] = [0.5, 1.25, 1.0]
  y : f32[4, 3] = batch_norm(x, scale, bias, mean, variance) {epsilon = 0.00001}
  output y
})";
  const Training training = make_training(model_of(text, {"scale", "bias", "mean", "variance"}), ops::all_ops(),
                                          {Loss::kMeanSquared, {.method = Method::kSgd}});
  EXPECT_EQ(training.parameters, (std::vector<std::string>{"scale", "bias"}));
}

// Names of a model that those of the step's own would be.
TEST(TrainingStep, NamesThatAreTaken) {
  const char* const text = R"(graph taken {
  input x : f32[4, 3]
  const w : f32[3, 2] = [0.5, -0.25, 1.0, 0.75, -0.5, 0.125]
  const w.v : f32[2] = [0.25, -0.5]
  w.next : f32[4, 2] = matmul(x, w)
  step : f32[4, 2] = add(w.next, w.v)
  output step
})";
  Trainer trainer(model_of(text, {"w", "w.v"}), {Loss::kMeanSquared, {.method = Method::kAdam}});
  const std::vector<RefTensor> inputs = {floats({kSamples, kFeatures}, numbers(12, 1)),
                                         floats({kSamples, kOutputs}, numbers(8, 2)), floats({}, {0.05})};
  const double first = trainer.step(inputs);
  for (int t = 0; t < 40; ++t) trainer.step(inputs);
  EXPECT_LT(trainer.step(inputs), 0.5 * first);
  EXPECT_EQ(trainer.state("w.v").size(), 2U) << "the parameter";
  EXPECT_EQ(trainer.state("w.v_1").size(), 6U) << "the moment of w";
}

TEST(TrainingStep, CrossEntropyFalls) {
  Trainer trainer(model_of(kClassifier, {"w", "c", "u"}), {Loss::kCrossEntropy, {.method = Method::kAdamW}});
  const RefTensor labels{.type = {DataType::i64(), {4}}, .floats = {}, .ints = {2, 0, 1, 0}};
  const std::vector<RefTensor> inputs = {floats({4, 3}, numbers(12, 3)), labels, floats({}, {0.05})};
  const double first = trainer.step(inputs);
  EXPECT_GT(first, 0.5);
  for (int t = 0; t < 150; ++t) trainer.step(inputs);
  EXPECT_LT(trainer.step(inputs), 0.5 * first);
  EXPECT_EQ(trainer.state("step").at(0), 152);
  const RefTensor wrong{.type = {DataType::i64(), {4}}, .floats = {}, .ints = {2, 0, 3, 0}};
  EXPECT_THROW(trainer.step({inputs[0], wrong, inputs[2]}), std::exception) << "a label that is no class";
}

TEST(TrainingStep, AModelThatHasItsLoss) {
  const char* const text = R"(graph own {
  input x : f32[4, 3]
  const w : f32[3, 1] = [0.5, -0.25, 1.0]
  p : f32[4, 1] = matmul(x, w)
  q : f32[4, 1] = mul(p, p)
  loss : f32[1, 1] = reduce_mean(q) {axes = [0, 1]}
  output loss
})";
  Trainer trainer(model_of(text, {"w"}), {Loss::kOutput, {.method = Method::kSgd}});
  const std::vector<RefTensor> inputs = {floats({4, 3}, numbers(12, 5)), floats({}, {0.1})};
  const double first = trainer.step(inputs);
  for (int t = 0; t < 20; ++t) trainer.step(inputs);
  EXPECT_LT(trainer.step(inputs), 0.5 * first);
}

TEST(TrainingStep, WhatDoesNotFitIsNamed) {
  const auto message = [](const std::string& text, std::set<std::string> weights, TrainOptions options) {
    try {
      make_training(model_of(text, std::move(weights)), ops::all_ops(), options);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_NE(message(kLinear, {}, {Loss::kMeanSquared}).find("no parameters"), std::string::npos);
  const std::string none = message(kLinear, {"w", "b"}, {Loss::kMeanSquared, {}, {"layers.*"}});
  EXPECT_NE(none.find("layers.*"), std::string::npos) << none;
  EXPECT_NE(none.find("w, b"), std::string::npos) << none;
  std::string taken = kLinear;
  for (size_t at = taken.find("x"); at != std::string::npos; at = taken.find("x", at)) taken.replace(at, 1, "labels");
  EXPECT_NE(message(taken, {"w"}, {Loss::kMeanSquared}).find("input 'labels'"), std::string::npos);
  EXPECT_NE(message(kLinear, {"w"}, {Loss::kOutput}).find("'y' is f32"), std::string::npos);
}

}  // namespace
}  // namespace tw::train
