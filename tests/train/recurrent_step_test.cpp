// Training of recurrent models: their loops are unrolled, and gradients pass all of their turns.
#include <gtest/gtest.h>

#include "tests/onnx/model_builder.h"
#include "tests/train/reference_steps.h"
#include "tests/train/trainer.h"

namespace tw::train {
namespace {

using tw::testing::ModelBuilder;

constexpr int64_t kSteps = 12, kBatch = 2, kInputs = 3, kHidden = 4;

std::vector<float> weights(int64_t count, int64_t seed) {
  const std::vector<double> all = numbers(count, seed);
  return {all.begin(), all.end()};
}

// The last state of a GRU.
frontend::ImportResult model() {
  ModelBuilder m(14);
  m.input("x", {kSteps, kBatch, kInputs}).output("h");
  m.floats("w", {1, 3 * kHidden, kInputs}, weights(3 * kHidden * kInputs, 1));
  m.floats("r", {1, 3 * kHidden, kHidden}, weights(3 * kHidden * kHidden, 2));
  m.floats("b", {1, 6 * kHidden}, weights(6 * kHidden, 3));
  testing::set_int(m.node("GRU", {"x", "w", "r", "b"}, {"", "h"}), "hidden_size", kHidden);
  m.graph().mutable_node(0)->set_name("gru");
  frontend::ImportOptions options;
  options.purpose = frontend::Purpose::kTraining;
  return frontend::import_onnx_bytes(m.bytes(), "", ops::all_ops(), options);
}

const TrainOptions kOptions{Loss::kMeanSquared, {.method = Method::kSgd}};

RefTensor x() { return floats({kSteps, kBatch, kInputs}, numbers(kSteps * kBatch * kInputs, 5)); }
RefTensor labels() { return floats({1, kBatch, kHidden}, numbers(kBatch * kHidden, 6)); }

TEST(RecurrentStep, ItsLoopIsUnrolled) {
  EXPECT_EQ(testing::count_nodes(model().graph, "repeat"), 1);
  for (const driver::FunctionGraph& function : make_training(model(), ops::all_ops(), kOptions).functions)
    EXPECT_EQ(testing::count_nodes(function.graph, "repeat"), 0) << function.function;
}

TEST(RecurrentStep, GradientsAreCentralDifferences) {
  ReferenceSteps steps(model(), kOptions);
  const std::vector<RefTensor> grads = steps.call("grads", {x(), labels()});
  const auto loss = [&] { return steps.call("eval", {x(), labels()}).back().floats.at(0); };
  constexpr double kStep = 1e-5;
  const std::vector<std::string> parameters = make_training(model(), ops::all_ops(), kOptions).parameters;
  ASSERT_EQ(parameters.size(), 3U);
  for (size_t p = 0; p < parameters.size(); ++p) {
    std::vector<double>& elements = steps.state(parameters[p]);
    for (size_t i = 0; i < elements.size(); i += 5) {
      const double before = elements[i];
      elements[i] = before + kStep;
      const double above = loss();
      elements[i] = before - kStep;
      const double below = loss();
      elements[i] = before;
      EXPECT_NEAR(grads[1 + p].floats[i], (above - below) / (2 * kStep), 1e-8) << parameters[p] << " " << i;
    }
  }
}

TEST(RecurrentStep, CompiledItLearns) {
  Trainer trainer(model(), kOptions);
  ReferenceSteps reference(model(), kOptions);
  const std::vector<RefTensor> inputs{x(), labels(), floats({}, {0.5})};
  double first = 0, last = 0;
  for (int t = 0; t < 10; ++t) {
    last = trainer.step(inputs);
    if (t == 0) first = last;
    EXPECT_NEAR(last, reference.run(inputs), 1e-5) << t;
  }
  EXPECT_LT(last, 0.9 * first);
}

}  // namespace
}  // namespace tw::train
