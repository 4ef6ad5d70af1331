// The states of a training step in the making.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "driver/options.h"
#include "graph/gradient.h"

namespace tw::train {

/// What a run finds as inputs of the graph and leaves as outputs.
class StepStates {
 public:
  explicit StepStates(graph::Graph& graph) : graph_(graph) {}
  using Parts = std::vector<driver::StatePair::Part>;
  /// A new input of (about) that name, f32[] or of `type`; it begins with zeros or with `initial`.
  graph::ValueId add(const std::string& wanted, const TensorType& type = {DataType::f32(), {}},
                     std::optional<driver::InitialValue> initial = {}, Parts parts = {});
  /// A value of the graph that nothing computes becomes an input.
  void adopt(graph::ValueId value, std::optional<driver::InitialValue> initial, Parts parts = {});
  /// What a run leaves.
  void leave(graph::ValueId state, const graph::Term& next) { next_.at(index(state)) = next.id(); }
  const std::vector<graph::ValueId>& inputs() const { return inputs_; }
  /// The next value of each, in the order of inputs().
  const std::vector<graph::ValueId>& next() const { return next_; }
  /// Their names: NAME and NAME.next.
  std::vector<driver::StatePair> pairs() const;

 private:
  size_t index(graph::ValueId state) const;
  graph::Graph& graph_;
  std::vector<graph::ValueId> inputs_, next_;
  std::vector<std::optional<driver::InitialValue>> initial_;
  std::vector<Parts> parts_;
};

/// f32[] of one number.
driver::InitialValue number_of(double value);

}  // namespace tw::train
