#include "train/training_graph.h"

#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "graph/ref_tensor.h"
#include "support/error.h"
#include "support/join.h"
#include "train/loss.h"
#include "train/optimizer.h"
#include "transform/train/differentiate.h"

namespace tw::train {
namespace {

using graph::Term;
using graph::ValueId;

bool is_one_of(const std::string& name, const std::vector<std::string>& patterns) {
  return std::ranges::any_of(patterns, [&](const std::string& p) { return fnmatch(p.c_str(), name.c_str(), 0) == 0; });
}

class StepMaker {
 public:
  StepMaker(const frontend::ImportResult& model, const graph::OpTable& ops, const TrainOptions& options)
      : ops_(ops), options_(options) {
    step_.graph = model.graph;
    find_parameters(model.weights);
  }

  TrainingStep run() {
    const ValueId y = output();
    for (const char* name : {"labels", "learning_rate", "loss", "step"}) claim(name);
    const ValueId labels = add_labels(y);
    rate_ = graph().add_input("learning_rate", {DataType::f32(), {}});
    for (const ValueId p : parameters_) free(p);
    const ValueId loss = append_loss(y, labels);
    const std::vector<ValueId> gradients = transform::differentiate(graph(), ops_, loss, parameters_);
    graph().values[static_cast<size_t>(loss)].name = "loss";
    graph().outputs = {loss};
    append_updates(gradients);
    return std::move(step_);
  }

 private:
  graph::Graph& graph() { return step_.graph; }

  // Means and variances that batch norms were given: they follow data, not gradients.
  std::set<ValueId> statistics() {
    std::set<ValueId> all;
    for (const graph::Node& node : graph().nodes) {
      if (node.op == "batch_norm") all.insert({node.inputs.at(3), node.inputs.at(4)});
    }
    return all;
  }

  void find_parameters(const std::set<std::string>& weights) {
    std::vector<std::string> known;
    const std::set<ValueId> measured = statistics();
    for (ValueId id = 0; id < std::ssize(graph().values); ++id) {
      const graph::Value& value = graph().value(id);
      if (!value.is_constant() || !weights.contains(value.name) || value.type.type != DataType::f32()) continue;
      if (measured.contains(id)) continue;
      known.push_back(value.name);
      if (is_one_of(value.name, options_.trained)) parameters_.push_back(id);
    }
    if (!parameters_.empty()) return;
    if (known.empty()) throw UserError("the model has no parameters: no initializer of f32 with several elements");
    throw UserError("no parameter is trained: none is called {}; the model has {}", fmt::join(options_.trained, ", "),
                    fmt::join(known, ", "));
  }

  // A name that the step uses itself.
  void claim(const std::string& name) {
    const ValueId other = graph().find_value(name);
    if (other == graph::kAbsent) return;
    if (std::ranges::count(graph().inputs, other) != 0)
      throw UserError("the model has an input '{}', which is the name of one of the step: rename it in the model",
                      name);
    graph().values[static_cast<size_t>(other)].name = graph::NameSet(graph()).unique(name + ".model");
  }

  ValueId output() {
    const std::vector<ValueId>& outputs = graph().outputs;
    const auto names = mapped(outputs, [&](ValueId id) { return graph().value(id).name; });
    if (outputs.size() != 1)
      throw UserError("a loss has one output of the model; it has {}: {}", outputs.size(), fmt::join(names, ", "));
    const TensorType type = graph().value(outputs[0]).type;
    if (options_.loss == Loss::kOutput && type.elements() != 1)
      throw UserError("an output that is the loss has one element; '{}' is {}", names[0], to_string(type));
    return outputs[0];
  }

  ValueId add_labels(ValueId y) {
    if (options_.loss == Loss::kOutput) return graph::kAbsent;
    const graph::Value& value = graph().value(y);
    return graph().add_input("labels", labels_type(options_.loss, value.type, value.name));
  }

  // What was a constant is a state.
  void free(ValueId parameter) {
    graph::Value& value = graph().values[static_cast<size_t>(parameter)];
    initial_.push_back(graph::RefTensor::from_bytes(value.type, *value.constant));
    value.constant = nullptr;
  }

  ValueId append_loss(ValueId y, ValueId labels) {
    graph::GradientBuilder builder(graph(), ops_);
    return loss_of(options_.loss, builder.term(y), builder.term(labels)).id();
  }

  // A state that begins with zeros.
  ValueId add_state(const std::string& wanted, const TensorType& type) {
    const ValueId id = graph().add_input(wanted, type);
    keep(id, {});
    return id;
  }

  // An input and, once it is computed, its next value under a name that nothing else has.
  void keep(ValueId input, std::optional<graph::RefTensor> initial) {
    const std::string& name = graph().value(input).name;
    step_.states.push_back({name, name + ".next", std::move(initial)});
  }

  void append_updates(const std::vector<ValueId>& gradients) {
    const Optimizer& optimizer = options_.optimizer;
    std::vector<std::vector<ValueId>> kept(parameters_.size());
    for (size_t p = 0; p < parameters_.size(); ++p) {
      const graph::Value value = graph().value(parameters_[p]);
      graph().inputs.push_back(parameters_[p]);
      keep(parameters_[p], initial_[p]);
      for (const std::string& suffix : kept_by(optimizer))
        kept[p].push_back(add_state(value.name + "." + suffix, value.type));
    }
    const bool counts = counts_steps(optimizer);
    const ValueId count = counts ? add_state("step", {DataType::f32(), {}}) : graph::kAbsent;
    graph::GradientBuilder builder(graph(), ops_);
    const Term step = counts ? builder.term(count) + 1 : Term{};
    std::vector<Term> next;
    for (size_t p = 0; p < parameters_.size(); ++p) {
      builder.name_after(graph().value(parameters_[p]).name);
      const auto states = mapped(kept[p], [&](ValueId id) { return builder.term(id); });
      std::ranges::copy(updated(optimizer, {builder.term(parameters_[p]), builder.term(gradients[p]),
                                            builder.term(rate_), step, states}),
                        std::back_inserter(next));
    }
    if (counts) next.push_back(step);
    for (size_t s = 0; s < next.size(); ++s) {
      claim(step_.states[s].output);
      graph().values[static_cast<size_t>(next[s].id())].name = step_.states[s].output;
      graph().outputs.push_back(next[s].id());
    }
  }

  const graph::OpTable& ops_;
  const TrainOptions& options_;
  TrainingStep step_;
  std::vector<ValueId> parameters_;
  std::vector<graph::RefTensor> initial_;  // of each
  ValueId rate_ = graph::kAbsent;
};

}  // namespace

TrainingStep make_training_step(const frontend::ImportResult& model, const graph::OpTable& ops,
                                const TrainOptions& options) {
  return StepMaker(model, ops, options).run();
}

}  // namespace tw::train
