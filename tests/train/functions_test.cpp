// The functions of a training beside each other: gradients and evaluation on the states that steps leave.
#include "artefact/verify.h"
#include "runtime/format/container.h"
#include "support/join.h"
#include "tests/train/trainer.h"

namespace tw::train {
namespace {

const std::vector<RefTensor> kBatch = {floats({kSamples, kFeatures}, numbers(12, 1)),
                                       floats({kSamples, kOutputs}, numbers(8, 2))};

std::vector<RefTensor> with_rate(std::vector<RefTensor> batch, double rate) {
  batch.push_back(floats({}, {rate}));
  return batch;
}

std::vector<std::string> names_of(const std::vector<artefact::NamedType>& all, size_t states) {
  std::vector<std::string> names = mapped(all, &artefact::NamedType::name);
  names.resize(names.size() - states);
  return names;
}

TEST(TrainingFunctions, HaveTheirOwnInputsAndOutputs) {
  Trainer trainer(model_of(kLinear, {"w", "b"}), {Loss::kMeanSquared, {.method = Method::kAdam}});
  using Names = std::vector<std::string>;
  const size_t states = trainer.training().states.size();
  EXPECT_EQ(states, 8U);
  const auto inputs = [&](const char* f) { return names_of(trainer.session(f).inputs(), states); };
  const auto outputs = [&](const char* f) { return names_of(trainer.session(f).outputs(), states); };
  EXPECT_EQ(inputs("step"), (Names{"x", "labels", "learning_rate"}));
  EXPECT_EQ(outputs("step"), Names{"loss"});
  EXPECT_EQ(inputs("grads"), (Names{"x", "labels"}));
  EXPECT_EQ(outputs("grads"), (Names{"loss", "w.grad", "b.grad"}));
  EXPECT_EQ(inputs("eval"), (Names{"x", "labels"}));
  EXPECT_EQ(outputs("eval"), (Names{"y", "loss"}));
  EXPECT_EQ(trainer.session("eval").entries(), (Names{"step", "grads", "eval"}));
}

// What a mask adds to scores is an initializer like a bias, and none that learns.
TEST(TrainingFunctions, MasksAreNoParameters) {
  for (const auto& [numbers, is_mask] : {std::pair("[0.0, -10000.0]", true),
                                         {"[-3.0e38, -3.0e38]", true},
                                         {"[0.5, -10000.0]", false},
                                         {"[0.0, 0.0]", false},
                                         {"[0.0, -9999.0]", false}}) {
    std::string text = kLinear;
    text.replace(text.find("[0.25, -0.5]"), 12, numbers);
    const Training training =
        make_training(model_of(text, {"w", "b"}), ops::all_ops(), {Loss::kMeanSquared, {.method = Method::kAdam}});
    using Names = std::vector<std::string>;
    EXPECT_EQ(training.parameters, is_mask ? Names{"w"} : (Names{"w", "b"})) << numbers;
    EXPECT_EQ(training.masks, is_mask ? Names{"b"} : Names{}) << numbers;
  }
  std::string text = kLinear;
  text.replace(text.find("[0.25, -0.5]"), 12, "[0.0, -10000.0]");
  TrainOptions named{Loss::kMeanSquared, {.method = Method::kAdam}};
  named.trained = {"b"};
  try {
    make_training(model_of(text, {"w", "b"}), ops::all_ops(), named);
    FAIL() << "a mask is trained";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("the model has w; a mask's numbers are none: b"), std::string::npos)
        << error.what();
  }
}

// p' = p - rate g of plain gradient descent, so g is known from the step; and neither other function changes a state.
TEST(TrainingFunctions, GradientsAreThoseOfTheStep) {
  Trainer trainer(model_of(kLinear, {"w", "b"}), {Loss::kMeanSquared, {.method = Method::kSgd}});
  for (int t = 0; t < 3; ++t) trainer.step(with_rate(kBatch, 0.1));
  const std::vector<double> before = trainer.state("w");
  const std::vector<RefTensor> grads = trainer.run("grads", kBatch), evaluated = trainer.run("eval", kBatch);
  EXPECT_EQ(trainer.state("w"), before);
  const double loss = trainer.step(with_rate(kBatch, 0.5));
  EXPECT_FLOAT_EQ(grads.at(0).floats.at(0), loss);
  EXPECT_FLOAT_EQ(evaluated.at(1).floats.at(0), loss);
  const std::vector<double> after = trainer.state("w");
  double largest = 0;
  for (size_t i = 0; i < after.size(); ++i) {
    largest = std::max(largest, std::abs(grads.at(1).floats.at(i)));
    EXPECT_NEAR(after[i], before[i] - 0.5 * grads[1].floats[i], 1e-6) << i;
  }
  EXPECT_GT(largest, 1e-3);
}

TEST(TrainingFunctions, EvaluationIsTheModel) {
  Trainer trainer(model_of(kLinear, {"w", "b"}), {Loss::kMeanSquared, {.method = Method::kSgd}});
  trainer.step(with_rate(kBatch, 0.1));
  const std::vector<RefTensor> evaluated = trainer.run("eval", kBatch);
  const std::vector<double> w = trainer.state("w"), b = trainer.state("b"), &x = kBatch[0].floats;
  double loss = 0;
  for (int n = 0; n < kSamples; ++n) {
    for (int k = 0; k < kOutputs; ++k) {
      double y = b[k];
      for (int c = 0; c < kFeatures; ++c) y += x[n * kFeatures + c] * w[c * kOutputs + k];
      EXPECT_NEAR(evaluated.at(0).floats.at(n * kOutputs + k), y, 1e-5);
      loss += (y - kBatch[1].floats[n * kOutputs + k]) * (y - kBatch[1].floats[n * kOutputs + k]) / 8;
    }
  }
  EXPECT_NEAR(evaluated.at(1).floats.at(0), loss, 1e-5);
}

// Two parameters whose gradients are one value, and one that the loss does not depend on.
TEST(TrainingFunctions, GradientsThatAreEqualOrZeroAreOutputsAllTheSame) {
  const char* const text = R"(graph twins {
  input x : f32[4, 2]
  const a : f32[2] = [0.5, -0.25]
  const b : f32[2] = [0.25, 0.75]
  const c : f32[2] = [1.0, 2.0]
  t : f32[2] = add(a, b)
  u : f32[2] = sign(c)
  v : f32[2] = add(t, u)
  y : f32[4, 2] = add(x, v)
  output y
})";
  Trainer trainer(model_of(text, {"a", "b", "c"}), {Loss::kMeanSquared, {.method = Method::kSgd}});
  const std::vector<RefTensor> grads =
      trainer.run("grads", {floats({4, 2}, numbers(8, 1)), floats({4, 2}, numbers(8, 2))});
  ASSERT_EQ(grads.size(), 4U);
  EXPECT_EQ(grads[1].floats, grads[2].floats);
  EXPECT_NE(grads[1].floats, grads[3].floats);
  EXPECT_EQ(grads[3].floats, (std::vector<double>{0, 0}));
}

// A map that is added between convolutions has their order: all functions read what the step chose.
TEST(TrainingFunctions, StatesAreStoredAsTheStepLikesThem) {
  const char* const text = R"(graph conv {
  input x : f32[2, 32, 14, 14]
  input w : f32[32, 32, 3, 3]
  input u : f32[32, 32, 3, 3]
  input m : f32[2, 32, 14, 14]
  a : f32[2, 32, 14, 14] = conv(x, w) {dilations = [1, 1], groups = 1, pads = [1, 1, 1, 1], strides = [1, 1]}
  b : f32[2, 32, 14, 14] = add(a, m)
  h : f32[2, 32, 14, 14] = relu(b)
  y : f32[2, 32, 14, 14] = conv(h, u) {dilations = [1, 1], groups = 1, pads = [1, 1, 1, 1], strides = [1, 1]}
  output y
})";
  TrainOptions options{Loss::kMeanSquared, {.method = Method::kSgd}};
  options.not_finite = NotFinite::kUsed;  // norms of gradients have a say in their order
  Trainer trainer(with_constants(model_of(text, {"w", "u", "m"})), options);
  const format::Artefact made = format::Artefact::parse(trainer.artefact());
  const bool is_turned = std::ranges::any_of(made.manifest().states, [](const auto& s) { return !s.order.empty(); });
  EXPECT_TRUE(is_turned) << "all states are rows: this test says nothing";
  const std::vector<RefTensor> batch = {floats({2, 32, 14, 14}, numbers(12544, 1)),
                                        floats({2, 32, 14, 14}, numbers(12544, 2))};
  for (int t = 0; t < 2; ++t) trainer.step(with_rate(batch, 0.01));
  const auto grads = trainer.run("grads", batch), evaluated = trainer.run("eval", batch);
  const std::vector<double> before = trainer.state("w");
  EXPECT_NEAR(trainer.step(with_rate(batch, 0.01)), evaluated.at(1).floats.at(0), 1e-5);
  const std::vector<double> after = trainer.state("w");
  for (size_t i = 0; i < after.size(); ++i) EXPECT_NEAR(after[i], before[i] - 0.01 * grads[1].floats[i], 1e-6) << i;
}

TEST(TrainingFunctions, EachIsVerified) {
  Trainer trainer(model_of(kLinear, {"w", "b"}), {Loss::kMeanSquared, {.method = Method::kAdam}});
  for (const char* function : {"step", "grads", "eval"}) {
    std::vector<RefTensor> given = kBatch;
    if (std::string(function) == "step") given = with_rate(kBatch, 0.1);
    std::vector<Array> inputs = mapped(given, artefact::to_array);
    append(inputs, trainer.session(function).initial_states());
    const artefact::VerifyReport report =
        artefact::verify_artefact(trainer.artefact(), nullptr, inputs, {}, {.function = function});
    EXPECT_TRUE(report.ok()) << function;
    EXPECT_EQ(report.entry, function);
    EXPECT_GT(report.groups.size(), 0U);
  }
}

// Weights are stored once, and two batch sizes of each function are four more entries on the same states.
TEST(TrainingFunctions, SeveralShapesShareTheStates) {
  std::string longer = kLinear;
  for (size_t at = longer.find("[4, "); at != std::string::npos; at = longer.find("[4, "))
    longer.replace(at, 4, "[6, ");
  const TrainOptions options = {Loss::kMeanSquared, {.method = Method::kSgd}};
  Trainer trainer(
      make_training({model_of(kLinear, {"w", "b"}), model_of(longer, {"w", "b"})}, ops::all_ops(), options));
  EXPECT_EQ(trainer.session("step").entries().size(), 6U);
  EXPECT_EQ(trainer.session("eval").own_entries(), (std::vector<int>{4, 5}));
  trainer.step(with_rate(kBatch, 0.1));
  const std::vector<RefTensor> batch = {floats({6, kFeatures}, numbers(18, 1)), floats({6, kOutputs}, numbers(12, 2))};
  const double loss = trainer.run("eval", batch).at(1).floats.at(0);
  EXPECT_FLOAT_EQ(trainer.step(with_rate(batch, 0.1)), loss);
}

}  // namespace
}  // namespace tw::train
