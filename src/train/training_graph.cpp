#include "train/training_graph.h"

#include "support/error.h"
#include "support/join.h"
#include "train/optimizer.h"
#include "train/trained_model.h"
#include "transform/train/differentiate.h"

namespace tw::train {
namespace {

using graph::Term;
using graph::ValueId;

std::vector<ValueId> gradients_of(TrainedModel& model, const graph::OpTable& ops) {
  return transform::differentiate(model.graph, ops, model.loss, model.parameters);
}

// Makes `value` an output of that name: a copy of it where it is one already, as the gradient of another parameter.
void add_output(graph::Graph& graph, const graph::OpTable& ops, ValueId value, const std::string& name) {
  claim(graph, name);
  if (graph.is_output(value) || graph.producer(value) < 0) {
    graph::GradientBuilder builder(graph, ops);
    builder.name_after(name);
    value = graph::emit("identity", {builder.term(value)}).id();
  }
  graph.values[static_cast<size_t>(value)].name = name;
  graph.outputs.push_back(value);
}

graph::Graph grads_graph(TrainedModel model, const graph::OpTable& ops) {
  const std::vector<ValueId> gradients = gradients_of(model, ops);
  append(model.graph.inputs, model.parameters);
  model.graph.outputs = {model.loss};
  for (size_t p = 0; p < gradients.size(); ++p)
    add_output(model.graph, ops, gradients[p], model.graph.value(model.parameters[p]).name + ".grad");
  return std::move(model.graph);
}

graph::Graph eval_graph(TrainedModel model, Loss loss) {
  append(model.graph.inputs, model.parameters);
  if (loss == Loss::kOutput) model.graph.outputs.clear();
  model.graph.outputs.push_back(model.loss);
  return std::move(model.graph);
}

// The step, and with it the states.
class StepMaker {
 public:
  StepMaker(TrainedModel model, const graph::OpTable& ops, const Optimizer& optimizer)
      : model_(std::move(model)), ops_(ops), optimizer_(optimizer) {}

  graph::Graph run(std::vector<driver::StatePair>& states) {
    rate_ = graph().add_input("learning_rate", {DataType::f32(), {}});
    const std::vector<ValueId> gradients = gradients_of(model_, ops_);
    graph().outputs = {model_.loss};
    append_updates(gradients);
    states = std::move(states_);
    return std::move(model_.graph);
  }

 private:
  graph::Graph& graph() { return model_.graph; }

  // A state that begins with zeros.
  ValueId add_state(const std::string& wanted, const TensorType& type) {
    const ValueId id = graph().add_input(wanted, type);
    keep(id, {});
    return id;
  }

  // An input and, once it is computed, its next value under a name that nothing else has.
  void keep(ValueId input, std::optional<graph::RefTensor> initial) {
    const std::string& name = graph().value(input).name;
    states_.push_back({name, name + ".next", std::move(initial)});
  }

  void append_updates(const std::vector<ValueId>& gradients) {
    const std::vector<ValueId>& parameters = model_.parameters;
    std::vector<std::vector<ValueId>> kept(parameters.size());
    for (size_t p = 0; p < parameters.size(); ++p) {
      const graph::Value value = graph().value(parameters[p]);
      graph().inputs.push_back(parameters[p]);
      keep(parameters[p], model_.initial[p]);
      for (const std::string& suffix : kept_by(optimizer_))
        kept[p].push_back(add_state(value.name + "." + suffix, value.type));
    }
    const bool counts = counts_steps(optimizer_);
    const ValueId count = counts ? add_state("step", {DataType::f32(), {}}) : graph::kAbsent;
    graph::GradientBuilder builder(graph(), ops_);
    const Term step = counts ? builder.term(count) + 1 : Term{};
    std::vector<Term> next;
    for (size_t p = 0; p < parameters.size(); ++p) {
      builder.name_after(graph().value(parameters[p]).name);
      const auto states = mapped(kept[p], [&](ValueId id) { return builder.term(id); });
      append(next, updated(optimizer_, {builder.term(parameters[p]), builder.term(gradients[p]), builder.term(rate_),
                                        step, states}));
    }
    if (counts) next.push_back(step);
    for (size_t s = 0; s < next.size(); ++s) add_output(graph(), ops_, next[s].id(), states_[s].output);
  }

  TrainedModel model_;
  const graph::OpTable& ops_;
  const Optimizer& optimizer_;
  std::vector<driver::StatePair> states_;
  ValueId rate_ = graph::kAbsent;
};

}  // namespace

Training make_training(const std::vector<frontend::ImportResult>& models, const graph::OpTable& ops,
                       const TrainOptions& options) {
  Training all = make_training(models.front(), ops, options);
  const size_t count = all.functions.size();
  std::vector<Training> others;
  for (size_t m = 1; m < models.size(); ++m) {
    others.push_back(make_training(models[m], ops, options));
    if (others.back().parameters != all.parameters)
      throw UserError("the model has parameters of its own for each shape of its inputs: {} and {}",
                      fmt::join(all.parameters, ", "), fmt::join(others.back().parameters, ", "));
  }
  std::vector<driver::FunctionGraph> functions;
  for (size_t f = 0; f < count; ++f) {
    functions.push_back(std::move(all.functions[f]));
    for (Training& other : others) functions.push_back(std::move(other.functions[f]));
  }
  all.functions = std::move(functions);
  return all;
}

Training make_training(const frontend::ImportResult& model, const graph::OpTable& ops, const TrainOptions& options) {
  const TrainedModel trained = make_trained_model(model, ops, options);
  Training out;
  out.parameters = mapped(trained.parameters, [&](ValueId p) { return trained.graph.value(p).name; });
  out.functions.push_back({"step", StepMaker(trained, ops, options.optimizer).run(out.states)});
  out.functions.push_back({"grads", grads_graph(trained, ops)});
  out.functions.push_back({"eval", eval_graph(trained, options.loss)});
  return out;
}

}  // namespace tw::train
