// Artefacts of training functions, run one by one on the states of a training.
#pragma once
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "artefact/session.h"
#include "driver/compile.h"
#include "graph/ref_tensor.h"
#include "ops/list.h"
#include "support/join.h"
#include "tests/transform/graph_tools.h"
#include "train/training_graph.h"

namespace tw::train {

using artefact::Array;
using graph::RefTensor;

// y = x w + b of 4 samples, 3 features, 2 outputs.
constexpr int kSamples = 4, kFeatures = 3, kOutputs = 2;
inline const char* const kLinear = R"(graph linear {
  input x : f32[4, 3]
  const w : f32[3, 2] = [0.5, -0.25, 1.0, 0.75, -0.5, 0.125]
  const b : f32[2] = [0.25, -0.5]
  p : f32[4, 2] = matmul(x, w)
  y : f32[4, 2] = add(p, b)
  output y
})";

// Scores of 3 classes for 4 samples of 3 features, by a hidden layer of 4.
inline const char* const kClassifier = R"(graph classifier {
  input x : f32[4, 3]
  const w : f32[3, 4] = [0.5, -0.25, 1.0, 0.75, -0.5, 0.125, -1.0, 0.5, 0.25, 0.5, -0.75, 1.0]
  const c : f32[4] = [0.1, 0.2, 0.3, -0.1]
  const u : f32[4, 3] = [0.5, -0.25, 0.5, 0.75, -0.5, 0.125, -1.0, 0.5, 0.25, 0.5, -0.75, 1.0]
  a : f32[4, 4] = matmul(x, w)
  b : f32[4, 4] = add(a, c)
  h : f32[4, 4] = relu(b)
  y : f32[4, 3] = matmul(h, u)
  output y
})";

inline frontend::ImportResult model_of(const std::string& text, std::set<std::string> weights) {
  frontend::ImportResult model;
  model.graph = testing::parse(text);
  model.weights = std::move(weights);
  return model;
}

inline RefTensor floats(const Shape& shape, std::vector<double> elements) {
  return {.type = {DataType::f32(), shape}, .floats = std::move(elements), .ints = {}};
}

inline std::vector<double> numbers(int64_t count, int64_t seed) {
  std::vector<double> all;
  for (int64_t i = 0; i < count; ++i) all.push_back(static_cast<double>((i * 37 + seed * 11) % 101) / 64 - 0.75);
  return all;
}

// The inputs that are called weights as constants, which may be larger than a graph's text holds.
inline frontend::ImportResult with_constants(frontend::ImportResult model) {
  graph::Graph& graph = model.graph;
  for (const std::string& name : model.weights) {
    graph::Value& value = graph.values[static_cast<size_t>(graph.find_value(name))];
    std::vector<double> elements = numbers(value.type.elements(), 3);
    for (double& x : elements) x /= 16;
    value.constant = share(floats(value.type.shape, elements).to_bytes());
    std::erase(graph.inputs, graph.find_value(name));
  }
  return model;
}

inline std::vector<uint8_t> artefact_of(const Training& training, driver::CompileOptions options = {}) {
  options.states = training.states;
  return driver::artefact_bytes(driver::compile_functions(training.functions, options));
}

class Trainer {
 public:
  Trainer(const frontend::ImportResult& model, const TrainOptions& options, DataType dtype = DataType::f32())
      : Trainer(make_training(model, ops::all_ops(), options), dtype) {}
  explicit Trainer(Training training, DataType dtype = DataType::f32())
      : training_(std::move(training)), artefact_(artefact_of(training_, strict(dtype))) {
    for (const char* name : {"step", "grads", "eval"})
      sessions_.emplace(name, artefact::Session::load_memory(artefact_, {.function = name}));
    states_ = session("step").initial_states();
  }

  double step(const std::vector<RefTensor>& inputs) { return run("step", inputs).at(0).floats.at(0); }

  // The outputs of a function on the states as they are; what it leaves are the states of the next one.
  std::vector<RefTensor> run(const std::string& function, const std::vector<RefTensor>& inputs) {
    std::vector<Array> given;
    for (const RefTensor& input : inputs) given.push_back(artefact::to_array(input));
    given.insert(given.end(), states_.begin(), states_.end());
    std::vector<Array> results = session(function).run(given);
    const auto own = results.end() - std::ssize(states_);
    states_.assign(own, results.end());
    results.erase(own, results.end());
    std::vector<RefTensor> outputs;
    for (const Array& result : results) outputs.push_back(artefact::to_reference(result));
    return outputs;
  }

  std::vector<double> state(const std::string& name) { return tensor(name).floats; }
  RefTensor tensor(const std::string& name) {
    const int64_t index = index_of(seen_names(training_.states), name);
    if (index >= 0) return artefact::to_reference(states_[static_cast<size_t>(index)]);
    ADD_FAILURE() << "no state " << name;
    return {};
  }
  artefact::Session& session(const std::string& function) { return sessions_.at(function); }
  const Training& training() const { return training_; }
  const std::vector<uint8_t>& artefact() const { return artefact_; }

 private:
  static driver::CompileOptions strict(DataType dtype) {
    driver::CompileOptions options;
    options.precision = Precision::kStrict;
    options.dtype = dtype;
    return options;
  }

  Training training_;
  std::vector<uint8_t> artefact_;
  std::map<std::string, artefact::Session> sessions_;
  std::vector<Array> states_;
};

}  // namespace tw::train
