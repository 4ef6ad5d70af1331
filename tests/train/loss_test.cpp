// Losses beside their formulas written out, and their gradients by central differences.
#include "train/loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/train/reference_steps.h"
#include "tests/train/trainer.h"

namespace tw::train {
namespace {

constexpr int kPlaces = 2, kClasses = 5;

// The output is the parameter: [3, 5, 2] of scores, so that its change is the gradient. w = 1 keeps it a computed one.
frontend::ImportResult scores() {
  std::string elements;
  for (const double x : numbers(3 * kClasses * kPlaces, 3))
    elements += (elements.empty() ? "" : ", ") + std::to_string(x);
  return model_of("graph scores {\n  input x : f32[1]\n  const s : f32[30] = [" + elements +
                      "]\n  r : f32[3, 5, 2] = reshape(s) {shape = [3, 5, 2]}\n"
                      "  y : f32[3, 5, 2] = add(r, x)\n  output y\n}",
                  {"s"});
}

TrainOptions of(Classes classes) {
  TrainOptions options;
  options.optimizer = {.method = Method::kSgd};
  options.classes = classes;
  return options;
}

std::vector<RefTensor> inputs(const std::vector<int64_t>& labels) {
  return {floats({1}, {0}), integers({3, 2}, labels), floats({}, {1})};
}

double cross_entropy(const std::vector<double>& s, const std::vector<int64_t>& labels, const Classes& options) {
  double sum = 0, count = 0;
  for (int n = 0; n < 3; ++n) {
    for (int d = 0; d < kPlaces; ++d) {
      const int64_t label = labels[n * kPlaces + d];
      if (options.ignored && label == *options.ignored) continue;
      const auto at = [&](int64_t c) { return s[(n * kClasses + c) * kPlaces + d]; };
      double total = 0, mean = 0;
      for (int c = 0; c < kClasses; ++c) total += std::exp(at(c));
      for (int c = 0; c < kClasses; ++c) mean += (std::log(total) - at(c)) / kClasses;
      sum += (1 - options.smoothing) * (std::log(total) - at(label)) + options.smoothing * mean;
      ++count;
    }
  }
  return count == 0 ? 0 : sum / count;
}

struct Case {
  Classes classes;
  std::vector<int64_t> labels;
};
const Case kCases[] = {{{}, {0, 4, 2, 2, 1, 3}},
                       {{.smoothing = 0.125}, {0, 4, 2, 2, 1, 3}},
                       {{.ignored = -100}, {0, -100, 2, -100, -100, 3}},
                       {{.ignored = 255}, {255, 4, 2, 2, 1, 3}},
                       {{.ignored = 2}, {0, 4, 2, 2, 1, 3}},
                       {{.smoothing = 0.25, .ignored = -1}, {0, -1, 2, 2, -1, 3}}};

TEST(CrossEntropy, IsItsFormulaAndSoIsItsGradient) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(::testing::PrintToString(c.labels));
    ReferenceSteps steps(scores(), of(c.classes));
    std::vector<double> s = steps.state("s");
    const double loss = steps.run(inputs(c.labels));
    EXPECT_NEAR(loss, cross_entropy(s, c.labels, c.classes), 1e-7);
    for (size_t i = 0; i < s.size(); ++i) {
      constexpr double kStep = 1e-4;
      const double before = s[i];
      s[i] = before + kStep;
      const double up = cross_entropy(s, c.labels, c.classes);
      s[i] = before - kStep;
      const double down = cross_entropy(s, c.labels, c.classes);
      s[i] = before;
      EXPECT_NEAR(before - steps.state("s")[i], (up - down) / (2 * kStep), 1e-6) << i;
    }
  }
}

TEST(CrossEntropy, OfNoLabelIsZero) {
  ReferenceSteps steps(scores(), of({.ignored = -100}));
  const std::vector<double> before = steps.state("s");
  EXPECT_EQ(steps.run(inputs(std::vector<int64_t>(6, -100))), 0);
  EXPECT_EQ(steps.state("s"), before);
  EXPECT_EQ(steps.state("skipped_steps")[0], 0) << "a step like others";
}

// -1 is not the last class, and nothing is learned of what is none. (That the run fails is check-indices' part.)
TEST(CrossEntropy, ALabelThatIsNoClassChangesNothing) {
  for (const int64_t wrong :
       {int64_t{-1}, int64_t{5}, int64_t{-6}, std::numeric_limits<int64_t>::min(), int64_t{1} << 40}) {
    ReferenceSteps steps(scores(), of({.ignored = -100}));
    const std::vector<double> before = steps.state("s");
    EXPECT_TRUE(std::isnan(steps.run(inputs({0, 4, wrong, -100, 1, 3})))) << wrong;
    EXPECT_EQ(steps.state("s"), before);
    EXPECT_EQ(steps.state("skipped_steps")[0], 1);
  }
}

TEST(Losses, OfAnEmptyBatchAreRefused) {
  const char* const text = R"(graph empty {
  input x : f32[0, 3]
  const w : f32[3, 2] = [0.5, -0.25, 1.0, 0.75, -0.5, 0.125]
  y : f32[0, 2] = matmul(x, w)
  output y
})";
  for (const Loss loss : {Loss::kCrossEntropy, Loss::kMeanSquared, Loss::kBinaryCrossEntropy}) {
    TrainOptions options;
    options.loss = loss;
    const std::string message = refusal(model_of(text, {"w"}), options);
    EXPECT_NE(message.find("empty batch"), std::string::npos) << message;
    EXPECT_NE(message.find("'y' is f32[0,2]"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace tw::train
