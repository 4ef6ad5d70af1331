#include "tests/train/train_tools.h"

#include <gtest/gtest.h>

#include "driver/compile.h"
#include "support/error.h"
#include "support/join.h"
#include "tests/transform/graph_tools.h"

namespace tw::testing {

using graph::RefTensor;

frontend::ImportResult trained_model(const std::string& text, std::set<std::string> weights) {
  frontend::ImportResult model;
  model.graph = parse(text);
  model.weights = std::move(weights);
  return model;
}

RefTensor f32_tensor(const Shape& shape, std::vector<double> elements) {
  return {.type = {DataType::f32(), shape}, .floats = std::move(elements), .ints = {}};
}

RefTensor i64_tensor(const Shape& shape, std::vector<int64_t> elements) {
  return {.type = {DataType::i64(), shape}, .floats = {}, .ints = std::move(elements)};
}

std::vector<double> spread_numbers(int64_t count, int64_t seed) {
  std::vector<double> all;
  for (int64_t i = 0; i < count; ++i) all.push_back(static_cast<double>((i * 37 + seed * 11) % 101) / 64 - 0.75);
  return all;
}

ReferenceSteps::ReferenceSteps(const frontend::ImportResult& model, const train::TrainOptions& options)
    : training_(train::make_training(model, context().ops, options)) {
  for (const driver::FunctionGraph& function : training_.functions) graph::verify(function.graph, context().ops);
  for (const driver::StatePair& state : training_.states) {
    const TensorType& type = graph().value(graph().find_value(state.input)).type;
    states_[state.input] = state.initial ? *state.initial : RefTensor::zeros(type);
  }
}

double ReferenceSteps::run(const std::vector<RefTensor>& inputs) {
  std::vector<RefTensor> given = inputs;
  for (const driver::StatePair& state : training_.states) given.push_back(states_.at(state.input));
  const std::vector<RefTensor> results = outputs_of(graph(), given);
  for (size_t s = 0; s < training_.states.size(); ++s) states_[training_.states[s].input] = results.at(s + 1);
  return results.at(0).floats.at(0);
}

std::vector<RefTensor> ReferenceSteps::call(const std::string& function, const std::vector<RefTensor>& inputs) const {
  for (const driver::FunctionGraph& f : training_.functions) {
    if (f.function != function) continue;
    std::vector<RefTensor> given = inputs;
    for (size_t k = inputs.size(); k < f.graph.inputs.size(); ++k)
      given.push_back(states_.at(f.graph.value(f.graph.inputs[k]).name));
    return outputs_of(f.graph, given);
  }
  throw InternalError("no function {}", function);
}

std::vector<double>& ReferenceSteps::state(const std::string& name) {
  if (!has(name)) throw InternalError("no state {}", name);
  return states_.at(name).floats;
}

namespace {

artefact::Session load(const train::Training& training, DataType dtype) {
  driver::CompileOptions options;
  options.states = training.states;
  options.precision = Precision::kStrict;
  options.dtype = dtype;
  return artefact::Session::load_memory(
      driver::artefact_bytes(driver::compile_graph(training.functions.front().graph, options)), {});
}

}  // namespace

CompiledSteps::CompiledSteps(const frontend::ImportResult& model, const train::TrainOptions& options, DataType dtype)
    : training_(train::make_training(model, context().ops, options)),
      session_(load(training_, dtype)),
      states_(session_.initial_states()) {}

double CompiledSteps::run(const std::vector<RefTensor>& inputs) {
  std::vector<artefact::Array> given = mapped(inputs, artefact::to_array);
  given.insert(given.end(), states_.begin(), states_.end());
  std::vector<artefact::Array> results = session_.run(given);
  states_.assign(results.begin() + 1, results.end());
  return artefact::to_reference(results.at(0)).floats.at(0);
}

RefTensor CompiledSteps::tensor(const std::string& name) const {
  for (size_t s = 0; s < training_.states.size(); ++s) {
    if (training_.states[s].input == name) return artefact::to_reference(states_[s]);
  }
  throw InternalError("no state {}", name);
}

std::vector<double> CompiledSteps::state(const std::string& name) const { return tensor(name).floats; }
DataType CompiledSteps::type_of(const std::string& name) const { return tensor(name).type.type; }

std::string refusal(const frontend::ImportResult& model, const train::TrainOptions& options) {
  try {
    train::make_training(model, context().ops, options);
  } catch (const UserError& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace tw::testing
