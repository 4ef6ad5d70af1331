// A label that is no class ends a run with an error, and the states are those from before it.
#include "tests/train/api_training.h"
#include "tests/train/reference_steps.h"
#include "tests/train/trainer.h"

namespace tw::train {
namespace {

using test::api;

constexpr int64_t kClasses = 3;

std::vector<uint8_t> classifier() {
  const char* const text = R"(graph classifier {
  input x : f32[4, 3]
  const w : f32[3, 3] = [0.5, -0.25, 1.0, 0.75, -0.5, 0.125, -1.0, 0.5, 0.25]
  const b : f32[3] = [0.25, -0.5, 0.125]
  p : f32[4, 3] = matmul(x, w)
  y : f32[4, 3] = add(p, b)
  output y
})";
  const Training training = make_training(model_of(text, {"w", "b"}), ops::all_ops(), {});
  return artefact_of(training);
}

class Process : ApiTraining {
 public:
  Process() : ApiTraining(classifier()) {}

  TwStatusCode step(std::vector<int64_t> labels) {
    const std::vector<double> all = numbers(kSamples * kFeatures, 1);
    std::vector<float> x(all.begin(), all.end());
    float rate = 0.1F, loss = 0;
    int64_t x_shape[] = {kSamples, kFeatures}, labels_shape[] = {kSamples};
    const DLTensor inputs[] = {tensor(x.data(), x_shape, 2),
                               {labels.data(), {kDLCPU, 0}, 1, {kDLInt, 64, 1}, labels_shape, nullptr, 0},
                               tensor(&rate, nullptr, 0)};
    const DLTensor output = tensor(&loss, nullptr, 0);
    const test::Outcome outcome = api().run_function(context_.get(), 0, inputs, 3, &output, 1);
    return outcome.code;
  }

  // All states but the number of steps that were left out, one behind the other.
  std::vector<float> states() {
    std::vector<float> all;
    for (const auto& [name, own] : elements()) {
      if (name != "skipped_steps") all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }
};

TEST(WrongLabel, FailsTheRunAndChangesNoState) {
  Process disturbed, undisturbed;
  const std::vector<float> first = disturbed.states();
  for (int t = 0; t < 3; ++t) {
    EXPECT_EQ(disturbed.step({0, 2, 1, 0}), TW_OK);
    EXPECT_EQ(undisturbed.step({0, 2, 1, 0}), TW_OK);
    for (const int64_t wrong : {kClasses, int64_t{-1}, int64_t{-3}, int64_t{1} << 40}) {
      EXPECT_EQ(disturbed.step({0, 2, wrong, 0}), TW_ERROR_INPUT_VALUE) << wrong;
      EXPECT_EQ(disturbed.states(), undisturbed.states()) << wrong;
    }
  }
  EXPECT_NE(disturbed.states(), first);
}

}  // namespace
}  // namespace tw::train
