#include "train/step_states.h"

namespace tw::train {

using driver::InitialValue;
using graph::ValueId;

ValueId StepStates::add(const std::string& wanted, const TensorType& type, std::optional<InitialValue> initial,
                        Parts parts) {
  const ValueId id = graph_.add_value(wanted, type);
  adopt(id, std::move(initial), std::move(parts));
  return id;
}

void StepStates::adopt(ValueId value, std::optional<InitialValue> initial, Parts parts) {
  graph_.inputs.push_back(value);
  inputs_.push_back(value);
  next_.push_back(graph::kAbsent);
  initial_.push_back(std::move(initial));
  parts_.push_back(std::move(parts));
}

size_t StepStates::index(ValueId state) const {
  const auto found = std::ranges::find(inputs_, state);
  TW_CHECK(found != inputs_.end(), "'{}' is no state", graph_.value(state).name);
  return static_cast<size_t>(found - inputs_.begin());
}

std::vector<driver::StatePair> StepStates::pairs() const {
  std::vector<driver::StatePair> pairs;
  for (size_t s = 0; s < inputs_.size(); ++s) {
    const std::string& name = graph_.value(inputs_[s]).name;
    pairs.push_back({name, name + ".next", initial_[s], parts_[s]});
  }
  return pairs;
}

InitialValue number_of(double value) {
  return InitialValue(graph::RefTensor{.type = {DataType::f32(), {}}, .floats = {value}, .ints = {}});
}

}  // namespace tw::train
