// Parameters that lie in one state: their products are one in both passes, and nobody sees it but by the time.
#include "train/stacked.h"

#include "artefact/verify.h"
#include "support/join.h"
#include "tests/train/attention_text.h"
#include "tests/train/trainer.h"

namespace tw::train {
namespace {

constexpr int64_t kBatch = 2, kTokens = 6, kHidden = 32;

frontend::ImportResult model(const std::string& memory = "h") {
  return with_constants(model_of(attention_text(memory), kAttentionWeights));
}

TrainOptions options_with(Products products, Method method = Method::kAdamW) {
  TrainOptions options{Loss::kMeanSquared, {.method = method}};
  options.optimizer.weight_decay = 0.01;
  options.products = products;
  return options;
}

std::vector<std::string> stacks_of(const Training& training) {
  std::vector<std::string> names;
  for (const driver::StatePair& state : training.states) {
    if (!state.parts.empty() && state.input.find('.') == std::string::npos) names.push_back(state.input);
  }
  return names;
}

int products_of(const Training& training) {
  const graph::Graph step = testing::run_pass(training.functions.front().graph, "canonicalize");
  return testing::count_nodes(step, "matmul");
}

Training training_of(const frontend::ImportResult& model, const TrainOptions& options) {
  return make_training(model, ops::all_ops(), options);
}

using Names = std::vector<std::string>;

// Forward e, q, k, v, scores, context and o; two gradients of each, but for e, whose input is the batch's.
TEST(StackedParameters, AreOneProductInEachPlace) {
  const Training apart = training_of(model(), options_with(Products::kApart));
  const Training merged = training_of(model(), options_with(Products::kMerged));
  EXPECT_EQ(products_of(apart), 7 + 13);
  EXPECT_EQ(products_of(merged), 5 + 9);
  EXPECT_EQ(stacks_of(apart), Names{});
  EXPECT_EQ(stacks_of(merged), (Names{"q+k+v", "qb+kb+vb"}));
  EXPECT_EQ(std::set<std::string>(merged.parameters.begin(), merged.parameters.end()), kAttentionWeights);
  const Names seen = seen_names(merged.states), before = seen_names(apart.states);
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()), std::set<std::string>(before.begin(), before.end()));
  // What the gradients of the parts are joined to is what both gradients read: nothing is padded or added.
  const graph::Graph step = testing::run_pass(merged.functions.front().graph, "canonicalize");
  EXPECT_EQ(testing::count_nodes(step, "pad"), 0);
}

TEST(StackedParameters, OfAnEncodersOutputAreKeysAndValues) {
  const Training merged = training_of(model("z"), options_with(Products::kMerged));
  EXPECT_EQ(stacks_of(merged), (Names{"k+v", "kb+vb"}));
}

TEST(StackedParameters, ThatAreUpdatedOtherwiseStayApart) {
  TrainOptions options = options_with(Products::kMerged);
  options.not_decayed = {"k"};
  EXPECT_EQ(stacks_of(training_of(model(), options)), (Names{"q+v", "qb+vb"}));
  options.not_decayed = {"*b"};
  EXPECT_EQ(stacks_of(training_of(model(), options)), (Names{"q+k+v", "qb+kb+vb"}));
  options.trained = {"q", "v", "*b"};
  EXPECT_EQ(stacks_of(training_of(model(), options)), (Names{"q+v", "qb+vb"}));
  EXPECT_EQ(stacks_of(training_of(model(), options_with(Products::kMerged, Method::kLamb))), Names{});
}

std::vector<RefTensor> batch_of(double rate) {
  const Shape shape = {kBatch, kTokens, kHidden};
  const int64_t count = kBatch * kTokens * kHidden;
  std::vector<RefTensor> batch = {floats(shape, numbers(count, 1)), floats(shape, numbers(count, 5)),
                                  floats(shape, numbers(count, 2))};
  if (rate != 0) batch.push_back(floats({}, {rate}));
  return batch;
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-5 * (1 + std::abs(b[i]))) << what << " " << i;
}

// Outputs of a function by their names.
std::map<std::string, RefTensor> results(Trainer& trainer, const std::string& function) {
  std::map<std::string, RefTensor> named;
  const std::vector<RefTensor> values = trainer.run(function, batch_of(0));
  const auto types = trainer.session(function).outputs();
  for (size_t i = 0; i < values.size(); ++i) named[types[i].name] = values[i];
  return named;
}

class SameTraining : public ::testing::TestWithParam<const char*> {};

TEST_P(SameTraining, LossesGradientsAndStates) {
  TrainOptions options = options_with(Products::kMerged);
  options.average = 0.9;
  options.clip_norm = 0.5;
  options.not_decayed = {"*b"};
  Trainer merged(model(GetParam()), options);
  options.products = Products::kApart;
  Trainer apart(model(GetParam()), options);
  for (const std::string& name : kAttentionWeights)
    EXPECT_EQ(merged.state(name), apart.state(name)) << name << " before the first step";
  for (int t = 0; t < 3; ++t) {
    const double loss = apart.step(batch_of(0.01));
    EXPECT_NEAR(merged.step(batch_of(0.01)), loss, 2e-5 * loss) << "step " << t;
  }
  for (const std::string& name : seen_names(apart.training().states))
    expect_near(merged.state(name), apart.state(name), name);
  for (const char* function : {"grads", "eval"}) {
    const auto expected = results(apart, function), got = results(merged, function);
    ASSERT_EQ(got.size(), expected.size());
    for (const auto& [name, value] : expected) {
      ASSERT_TRUE(got.contains(name)) << name;
      EXPECT_EQ(got.at(name).type, value.type) << name;
      expect_near(got.at(name).floats, value.floats, name);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, SameTraining, ::testing::Values("h", "z"));

TEST(StackedParameters, AreVerified) {
  Trainer trainer(model(), options_with(Products::kMerged));
  for (const char* function : {"step", "grads", "eval"}) {
    std::vector<Array> inputs = mapped(batch_of(std::string(function) == "step" ? 0.1 : 0), artefact::to_array);
    append(inputs, trainer.session(function).initial_states());
    const artefact::VerifyReport report =
        artefact::verify_artefact(trainer.artefact(), nullptr, inputs, {}, {.function = function});
    EXPECT_TRUE(report.ok()) << function;
  }
}

}  // namespace
}  // namespace tw::train
