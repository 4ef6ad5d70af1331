#include "tests/train/reference_steps.h"

#include <gtest/gtest.h>

#include "support/error.h"
#include "tests/transform/graph_tools.h"

namespace tw::train {

using graph::RefTensor;

RefTensor integers(const Shape& shape, std::vector<int64_t> elements) {
  return {.type = {DataType::i64(), shape}, .floats = {}, .ints = std::move(elements)};
}

ReferenceSteps::ReferenceSteps(const frontend::ImportResult& model, const TrainOptions& options)
    : training_(make_training(model, testing::context().ops, options)) {
  for (const driver::FunctionGraph& function : training_.functions)
    graph::verify(function.graph, testing::context().ops);
  for (const driver::StatePair& state : training_.states) {
    const TensorType& type = graph().value(graph().find_value(state.input)).type;
    states_[state.input] = state.initial ? state.initial->elements() : RefTensor::zeros(type);
  }
}

double ReferenceSteps::run(const std::vector<RefTensor>& inputs) {
  std::vector<RefTensor> given = inputs;
  for (const driver::StatePair& state : training_.states) given.push_back(states_.at(state.input));
  const std::vector<RefTensor> results = testing::outputs_of(graph(), given);
  for (size_t s = 0; s < training_.states.size(); ++s) states_[training_.states[s].input] = results.at(s + 1);
  return results.at(0).floats.at(0);
}

std::vector<RefTensor> ReferenceSteps::call(const std::string& function, const std::vector<RefTensor>& inputs) const {
  for (const driver::FunctionGraph& f : training_.functions) {
    if (f.function != function) continue;
    std::vector<RefTensor> given = inputs;
    for (size_t k = inputs.size(); k < f.graph.inputs.size(); ++k)
      given.push_back(states_.at(f.graph.value(f.graph.inputs[k]).name));
    return testing::outputs_of(f.graph, given);
  }
  throw InternalError("no function {}", function);
}

std::vector<double>& ReferenceSteps::state(const std::string& name) {
  if (!has(name)) throw InternalError("no state {}", name);
  return states_.at(name).floats;
}

std::string refusal(const frontend::ImportResult& model, const TrainOptions& options) {
  try {
    make_training(model, testing::context().ops, options);
  } catch (const UserError& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace tw::train
