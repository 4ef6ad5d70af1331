// Batch norms in training mode: what they normalize by, what they keep, and gradients through both.
#include "train/batch_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "frontend/onnx/import.h"
#include "ops/list.h"
#include "tests/onnx/model_builder.h"
#include "tests/train/reference_steps.h"
#include "tests/train/trainer.h"

namespace tw::train {
namespace {

constexpr int kImages = 3, kChannels = 2, kPixels = 4, kCount = kImages * kPixels;
constexpr double kEpsilon = 1e-3;

std::string text(const std::string& momentum = "") {
  return R"(graph norm {
  input x : f32[3, 2, 4]
  const f : f32[2, 2] = [0.5, -0.25, 1.0, 0.75]
  const scale : f32[2] = [1.0, 0.5]
  const bias : f32[2] = [0.0, 0.25]
  const mean : f32[2] = [0.5, -0.25]
  const variance : f32[2] = [0.5, 1.25]
  m : f32[3, 2, 4] = matmul(f, x)
  y : f32[3, 2, 4] = batch_norm(m, scale, bias, mean, variance) {epsilon = 0.001)" +
         momentum + "}\n  output y\n}";
}

frontend::ImportResult model(const std::string& momentum = "") {
  return model_of(text(momentum), {"f", "scale", "bias", "mean", "variance"});
}

TrainOptions options(Statistics statistics = Statistics::kOfBatch) {
  TrainOptions chosen;
  chosen.loss = Loss::kMeanSquared;
  chosen.optimizer = {.method = Method::kSgd};
  chosen.statistics = statistics;
  return chosen;
}

std::vector<RefTensor> batch(int64_t seed, double rate) {
  return {floats({3, 2, 4}, numbers(24, seed)), floats({3, 2, 4}, numbers(24, seed + 31)), floats({}, {rate})};
}

// The model and its loss, written out.
struct Written {
  std::vector<double> p = {0.5, -0.25, 1.0, 0.75, 1.0, 0.5, 0.0, 0.25};  // f, scale, bias
  std::vector<double> mean = std::vector<double>(2), variance = std::vector<double>(2);

  double loss(const std::vector<RefTensor>& inputs) {
    const auto at = [](int n, int c, int i) { return (n * kChannels + c) * kPixels + i; };
    double loss = 0;
    for (int c = 0; c < kChannels; ++c) {
      std::vector<double> m;
      for (int n = 0; n < kImages; ++n) {
        for (int i = 0; i < kPixels; ++i)
          m.push_back(p[c * 2] * inputs[0].floats[at(n, 0, i)] + p[c * 2 + 1] * inputs[0].floats[at(n, 1, i)]);
      }
      mean[c] = variance[c] = 0;
      for (const double x : m) mean[c] += x / kCount;
      for (const double x : m) variance[c] += (x - mean[c]) * (x - mean[c]) / kCount;
      for (int k = 0; k < kCount; ++k) {
        const double y = (m[k] - mean[c]) / std::sqrt(variance[c] + kEpsilon) * p[4 + c] + p[6 + c];
        const double off = y - inputs[1].floats[at(k / kPixels, c, k % kPixels)];
        loss += off * off / (kCount * kChannels);
      }
    }
    return loss;
  }
};

TEST(BatchStatistics, NormalizeAndPassGradients) {
  ReferenceSteps steps(model(), options());
  const std::vector<RefTensor> inputs = batch(1, 1);
  Written written;
  const auto now = [&] {
    std::vector<double> all;
    for (const char* name : {"f", "scale", "bias"})
      all.insert(all.end(), steps.state(name).begin(), steps.state(name).end());
    return all;
  };
  EXPECT_NEAR(steps.run(inputs), written.loss(inputs), 1e-6);
  for (size_t i = 0; i < written.p.size(); ++i) {
    constexpr double kStep = 1e-4;
    const double before = written.p[i];
    written.p[i] = before + kStep;
    const double up = written.loss(inputs);
    written.p[i] = before - kStep;
    const double down = written.loss(inputs);
    written.p[i] = before;
    EXPECT_NEAR(before - now()[i], (up - down) / (2 * kStep), 1e-5) << i;
  }
}

// running = running * momentum + batch * (1 - momentum), variances over all n elements (not n - 1).
TEST(BatchStatistics, AreFollowed) {
  for (const double momentum : {0.9, 0.75}) {
    ReferenceSteps steps(model(momentum == 0.9 ? "" : ", momentum = 0.75"), options());
    std::vector<double> mean = steps.state("mean"), variance = steps.state("variance");
    Written written;
    for (int t = 0; t < 3; ++t) {
      steps.run(batch(t, 0));
      written.loss(batch(t, 0));
      for (int c = 0; c < kChannels; ++c) {
        mean[c] = mean[c] * momentum + written.mean[c] * (1 - momentum);
        variance[c] = variance[c] * momentum + written.variance[c] * (1 - momentum);
        EXPECT_NEAR(steps.state("mean")[c], mean[c], 1e-6);
        EXPECT_NEAR(steps.state("variance")[c], variance[c], 1e-6);
      }
    }
  }
}

TEST(BatchStatistics, HaveTheMomentumOfTheirNode) {
  testing::ModelBuilder m(17);
  m.input("x", {int64_t{4}, int64_t{2}}).output("y");
  for (const char* name : {"scale", "bias", "mean", "variance"}) m.floats(name, {2}, {1, 0.5});
  testing::set_float(m.node("BatchNormalization", {"x", "scale", "bias", "mean", "variance"}, {"y"}), "momentum",
                     0.25F);
  ReferenceSteps steps(frontend::import_onnx_bytes(m.bytes(), "", ops::all_ops(), {}), options());
  steps.run({floats({4, 2}, {1, 0, 2, 0, 3, 0, 6, 0}), floats({4, 2}, numbers(8, 1)), floats({}, {0.1})});
  EXPECT_NEAR(steps.state("mean")[0], 0.25 * 1 + 0.75 * 3, 1e-6);
  EXPECT_NEAR(steps.state("variance")[0], 0.25 * 1 + 0.75 * 3.5, 1e-6);
  EXPECT_NEAR(steps.state("variance")[1], 0.25 * 0.5, 1e-6);
}

TEST(BatchStatistics, StayWhereTheStepIsLeftOut) {
  ReferenceSteps steps(model(), options());
  std::vector<RefTensor> bad = batch(1, 0.1);
  bad[0].floats[3] = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> mean = steps.state("mean"), variance = steps.state("variance");
  steps.run(bad);
  EXPECT_EQ(steps.state("mean"), mean);
  EXPECT_EQ(steps.state("variance"), variance);
  steps.run(batch(1, 0.1));
  EXPECT_NE(steps.state("mean"), mean);
}

// eval normalizes by what was followed, grads by the batch; neither changes a state.
TEST(BatchStatistics, OfTheOtherFunctions) {
  ReferenceSteps steps(model(), options());
  steps.run(batch(1, 0.1));
  const auto before = steps.states();
  std::vector<RefTensor> inputs = batch(2, 0);
  inputs.pop_back();
  const RefTensor y = steps.call("eval", inputs).at(0);
  const auto state = [&](const char* name, int i) { return steps.state(name)[i]; };
  for (int c = 0; c < kChannels; ++c) {
    const double m = state("f", 2 * c) * inputs[0].floats[0] + state("f", 2 * c + 1) * inputs[0].floats[kPixels];
    const double deviation = std::sqrt(state("variance", c) + kEpsilon);
    const double want = (m - state("mean", c)) / deviation * state("scale", c) + state("bias", c);
    EXPECT_NEAR(y.floats[c * kPixels], want, 1e-6);
  }
  const std::vector<RefTensor> grads = steps.call("grads", inputs);
  for (const auto& [name, value] : steps.states()) EXPECT_EQ(value.floats, before.at(name).floats) << name;
  std::vector<RefTensor> with_rate = batch(2, 1);
  EXPECT_NEAR(grads.at(0).floats[0], steps.run(with_rate), 1e-9);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(grads.at(1).floats[i], before.at("f").floats[i] - steps.state("f")[i], 1e-6);
}

TEST(BatchStatistics, FrozenOnesAreConstants) {
  ReferenceSteps steps(model(), options(Statistics::kFrozen));
  EXPECT_FALSE(steps.has("mean"));
  EXPECT_TRUE(steps.graph().value(steps.graph().find_value("mean")).is_constant());
  const std::vector<double> before = steps.state("f");
  steps.run(batch(1, 0.1));
  EXPECT_NE(steps.state("f"), before);
}

// One layer used twice follows first the one batch, then the other.
TEST(BatchStatistics, ThatNodesShare) {
  const char* const shared = R"(graph shared {
  input x : f32[4, 2]
  input z : f32[4, 2]
  const scale : f32[2] = [1.0, 0.5]
  const bias : f32[2] = [0.0, 0.25]
  const mean : f32[2] = [0.5, -0.25]
  const variance : f32[2] = [0.5, 1.25]
  a : f32[4, 2] = batch_norm(x, scale, bias, mean, variance) {epsilon = 0.001}
  b : f32[4, 2] = batch_norm(z, scale, bias, mean, variance) {epsilon = 0.001}
  y : f32[4, 2] = add(a, b)
  output y
})";
  ReferenceSteps steps(model_of(shared, {"scale", "bias", "mean", "variance"}), options());
  const std::vector<double> x = numbers(8, 1), z = numbers(8, 2);
  steps.run({floats({4, 2}, x), floats({4, 2}, z), floats({4, 2}, numbers(8, 3)), floats({}, {0.1})});
  for (int c = 0; c < 2; ++c) {
    const double of_x = (x[c] + x[2 + c] + x[4 + c] + x[6 + c]) / 4, of_z = (z[c] + z[2 + c] + z[4 + c] + z[6 + c]) / 4;
    EXPECT_NEAR(steps.state("mean")[c], ((c == 0 ? 0.5 : -0.25) * 0.9 + of_x * 0.1) * 0.9 + of_z * 0.1, 1e-7);
  }
}

// As an exporter writes a fresh layer, whose scale and variance are equal.
TEST(BatchStatistics, ThatAreParametersToo) {
  const char* const fresh = R"(graph fresh {
  input x : f32[4, 2]
  const ones : f32[2] = [1.0, 1.0]
  const zeros : f32[2] = [0.0, 0.0]
  a : f32[4, 2] = batch_norm(x, ones, zeros, zeros, ones) {epsilon = 0.001} as norm
  y : f32[4, 2] = neg(a)
  output y
})";
  ReferenceSteps steps(model_of(fresh, {"ones", "zeros"}), options());
  const std::vector<double> x = numbers(8, 1);
  steps.run({floats({4, 2}, x), floats({4, 2}, numbers(8, 3)), floats({}, {0.1})});
  EXPECT_NEAR(steps.state("norm.mean")[0], (x[0] + x[2] + x[4] + x[6]) / 4 * 0.1, 1e-7);
  EXPECT_NE(steps.state("zeros"), (std::vector<double>{0, 0})) << "the bias learns";
  EXPECT_NE(steps.state("norm.variance"), steps.state("ones"));
}

TEST(BatchStatistics, OfOneElementAreRefused) {
  const char* const small = R"(graph small {
  input x : f32[1, 3]
  const scale : f32[3] = [1.0, 0.5, 2.0]
  const bias : f32[3] = [0.0, 0.25, 0.5]
  const mean : f32[3] = [0.5, -0.25, 1.0]
  const variance : f32[3] = [0.5, 1.25, 1.0]
  y : f32[1, 3] = batch_norm(x, scale, bias, mean, variance) {epsilon = 0.00001}
  output y
})";
  const frontend::ImportResult one = model_of(small, {"scale", "bias", "mean", "variance"});
  const std::string message = refusal(one, options());
  EXPECT_NE(message.find("f32[1,3] has 1 element in"), std::string::npos) << message;
  EXPECT_NE(message.find("--frozen-statistics"), std::string::npos) << message;
  EXPECT_EQ(refusal(one, options(Statistics::kFrozen)), "nothing");
}

}  // namespace
}  // namespace tw::train
