// Steps of models with dropouts: compiled beside the reference, from run to run, for other plans and thread counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "artefact/session.h"
#include "driver/code/generate.h"
#include "driver/compile.h"
#include "tests/harness/graph_evaluate.h"
#include "tests/transform/graph_tools.h"
#include "train/training_graph.h"

namespace tw::train {
namespace {

using artefact::Array;
using graph::RefTensor;

// The second dropout reads what the first one did, in another order of dims.
const char* const kModel = R"(graph dropped {
  input x : f32[8, 6]
  const w : f32[6, 2] = [0.5, -0.25, 1.0, 0.75, -0.5, 0.125, -1.0, 0.5, 0.25, 0.5, -0.75, 1.0]
  const u : f32[2, 3] = [0.5, -0.25, 0.5, 0.75, -0.5, 0.125]
  d : f32[8, 6] = dropout(x) {ratio = 0.25, stream = 0}
  a : f32[8, 2] = matmul(d, w)
  h : f32[8, 2] = tanh(a)
  t : f32[2, 8] = transpose(h) {perm = [1, 0]}
  e : f32[2, 8] = dropout(t) {ratio = 0.5, stream = 1}
  s : f32[8, 2] = transpose(e) {perm = [1, 0]}
  y : f32[8, 3] = matmul(s, u)
  output y
})";

Training step_of(Method method) {
  frontend::ImportResult model;
  model.graph = testing::parse(kModel);
  model.weights = {"w", "u"};
  return make_training(model, testing::context().ops, {Loss::kMeanSquared, {.method = method}});
}

RefTensor floats(const Shape& shape, int64_t seed) {
  RefTensor t = RefTensor::zeros({DataType::f32(), shape});
  for (size_t i = 0; i < t.floats.size(); ++i)
    t.floats[i] = static_cast<double>((static_cast<int64_t>(i) * 37 + seed * 11) % 101) / 64 - 0.75;
  return t;
}

std::vector<RefTensor> batch(int64_t seed, double rate = 0.1) {
  RefTensor learning_rate = RefTensor::zeros({DataType::f32(), {}});
  learning_rate.floats[0] = rate;
  learning_rate.round_to_type();
  return {floats({8, 6}, 1), floats({8, 3}, 2), learning_rate, {{DataType::i64(), {}}, {}, {seed}}};
}

// A step and what it keeps.
class Runner {
 public:
  Runner(const Training& step, const driver::CompileOptions& wanted, int threads)
      : session_(load(step, wanted, threads)), states_(session_.initial_states()) {}

  /// Everything that it leaves: the loss, then the states.
  std::vector<Array> step(const std::vector<RefTensor>& inputs) {
    std::vector<Array> given;
    for (const RefTensor& input : inputs) given.push_back(artefact::to_array(input));
    given.insert(given.end(), states_.begin(), states_.end());
    std::vector<Array> results = session_.run(given);
    states_.assign(results.begin() + 1, results.end());
    return results;
  }
  void restart() { states_ = session_.initial_states(); }

 private:
  static artefact::Session load(const Training& step, driver::CompileOptions options, int threads) {
    options.states = step.states;
    return artefact::Session::load_memory(
        driver::artefact_bytes(driver::compile_graph(step.functions.front().graph, options)), {.threads = threads});
  }
  artefact::Session session_;
  std::vector<Array> states_;
};

double loss_of(const std::vector<Array>& results) { return artefact::to_reference(results[0]).floats.at(0); }

TEST(DropoutStep, HasASeedAndCountsRuns) {
  const Training step = step_of(Method::kSgd);
  std::vector<std::string> inputs, states;
  for (const graph::ValueId id : step.functions.front().graph.inputs)
    inputs.push_back(step.functions.front().graph.value(id).name);
  for (const driver::StatePair& state : step.states) states.push_back(state.input);
  EXPECT_EQ(inputs,
            (std::vector<std::string>{"x", "labels", "learning_rate", "seed", "runs", "w", "u", "skipped_steps"}));
  EXPECT_EQ(states, (std::vector<std::string>{"runs", "w", "u", "skipped_steps"}));
}

// Both directions drop the same elements as the reference: else results would differ by far more than rounding.
TEST(DropoutStep, ComputesWhatTheReferenceDoes) {
  for (const Method method : {Method::kSgd, Method::kAdamW}) {
    const Training step = step_of(method);
    Runner run(step, {}, 1);
    std::vector<RefTensor> states;
    for (const driver::StatePair& state : step.states) {
      const TensorType type =
          step.functions.front().graph.value(step.functions.front().graph.find_value(state.input)).type;
      states.push_back(state.initial ? state.initial->elements() : RefTensor::zeros(type));
    }
    for (int t = 0; t < 4; ++t) {
      std::vector<RefTensor> inputs = batch(9 + t);
      const std::vector<Array> got = run.step(inputs);
      inputs.insert(inputs.end(), states.begin(), states.end());
      const std::vector<RefTensor> values =
          graph::evaluate(step.functions.front().graph, testing::context().ops, inputs, graph::Rounding::kEachValue);
      states.clear();
      for (size_t k = 0; k < got.size(); ++k) {
        const RefTensor want = values.at(step.functions.front().graph.outputs[k]),
                        have = artefact::to_reference(got[k]);
        for (size_t i = 0; i < want.floats.size(); ++i)
          ASSERT_NEAR(have.floats[i], want.floats[i], 1e-4 * (1 + std::fabs(want.floats[i]))) << k << " " << i;
        if (k > 0) states.push_back(have);
      }
    }
  }
}

// The loss of a function at that run, by the reference.
double loss_of(const Training& training, const std::string& function, int64_t run) {
  const graph::Graph& g = std::ranges::find(training.functions, function, &driver::FunctionGraph::function)->graph;
  std::map<std::string, RefTensor> given = {
      {"x", batch(3)[0]}, {"labels", batch(3)[1]}, {"learning_rate", batch(3)[2]}, {"seed", batch(3)[3]}};
  for (const driver::StatePair& state : training.states) {
    given[state.input] = state.initial ? state.initial->elements() : RefTensor{{DataType::f32(), {}}, {0}, {}};
  }
  given["runs"] = {{DataType::i64(), {}}, {}, {run}};
  std::vector<RefTensor> inputs;
  for (const graph::ValueId id : g.inputs) inputs.push_back(given.at(g.value(id).name));
  const std::vector<RefTensor> values = graph::evaluate(g, testing::context().ops, inputs, graph::Rounding::kNone);
  return values.at(g.find_value("loss")).floats.at(0);
}

TEST(DropoutStep, GradientsAreTheStepsAndEvaluationDropsNothing) {
  const Training training = step_of(Method::kSgd);
  for (const int64_t run : {0, 6}) EXPECT_EQ(loss_of(training, "grads", run), loss_of(training, "step", run));
  EXPECT_NE(loss_of(training, "grads", 0), loss_of(training, "grads", 6));
  EXPECT_EQ(loss_of(training, "eval", 0), loss_of(training, "eval", 6));
  EXPECT_NE(loss_of(training, "eval", 0), loss_of(training, "step", 0));
}

TEST(DropoutStep, DrawsAnewForEachStepAndSeed) {
  Runner run(step_of(Method::kSgd), {}, 1);
  const double first = loss_of(run.step(batch(3, 0))), second = loss_of(run.step(batch(3, 0)));
  EXPECT_NE(first, second) << "parameters stay at rate 0: only the step is another";
  run.restart();
  EXPECT_EQ(loss_of(run.step(batch(3, 0))), first);
  run.restart();
  EXPECT_NE(loss_of(run.step(batch(4, 0))), first);
}

// One artefact gives the same bits for any number of threads; other plans the same elements, and so nearly the same.
TEST(DropoutStep, RepeatsForThreadsAndPlans) {
  const Training step = step_of(Method::kAdamW);
  driver::CompileOptions plain, generic;
  generic.disabled_families = {"contraction", "columns", "rows", "sums", "chain", "reduced"};
  generic.all_optional_off = true;
  Runner one(step, plain, 1), two(step, plain, 2), other(step, generic, 2);
  for (int t = 0; t < 3; ++t) {
    const std::vector<Array> a = one.step(batch(5)), b = two.step(batch(5)), c = other.step(batch(5));
    for (size_t k = 0; k < a.size(); ++k) EXPECT_EQ(a[k].bytes, b[k].bytes) << k;
    EXPECT_NEAR(loss_of(a), loss_of(c), 1e-5);
  }
}

// A GPU's threads hold whole counters: four neighbours of one.
TEST(DropoutStep, IsCodeForGpus) {
  if (const Result<bool> available = driver::cuda_generation_available(); !available.ok())
    GTEST_SKIP() << "not run: " << available.reason();
  const Training step = step_of(Method::kSgd);
  driver::CompileOptions options;
  options.target = "cuda:sm_90a";
  options.no_measure = true;
  options.no_cache = true;
  options.states = step.states;
  EXPECT_FALSE(driver::artefact_bytes(driver::compile_graph(step.functions.front().graph, options)).empty());
}

TEST(DropoutStep, ModelsWithAnInputCalledSeed) {
  std::string text = kModel;
  const auto rename = [&text](const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  rename("input x", "input seed");
  rename("dropout(x)", "dropout(seed)");
  frontend::ImportResult model;
  model.graph = testing::parse(text);
  model.weights = {"w", "u"};
  EXPECT_THROW(make_training(model, testing::context().ops, {Loss::kMeanSquared}), UserError);
}

}  // namespace
}  // namespace tw::train
