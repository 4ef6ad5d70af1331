#include "train/training_graph.h"

#include "support/join.h"
#include "train/batch_statistics.h"
#include "train/loss_scale.h"
#include "train/random_numbers.h"
#include "train/step_states.h"
#include "train/step_update.h"
#include "train/trained_model.h"
#include "transform/storage_order.h"
#include "transform/train/differentiate.h"

namespace tw::train {
namespace {

using graph::Term;
using graph::ValueId;

// Of the loss, by way of its product with `scale` where there is one.
// `behind` is how many nodes there are before they are divided by it.
std::vector<ValueId> scaled_gradients(TrainedModel& model, const graph::OpTable& ops, ValueId scale, size_t& behind) {
  const ValueId scaled = [&] {
    graph::GradientBuilder builder(model.graph, ops);
    return scale == graph::kAbsent ? model.loss : (builder.term(model.loss) * builder.term(scale)).id();
  }();
  std::vector<ValueId> gradients = transform::differentiate(model.graph, ops, scaled, model.parameters);
  behind = model.graph.nodes.size();
  if (scale == graph::kAbsent) return gradients;
  graph::GradientBuilder builder(model.graph, ops);
  const Term inverse = graph::emit("reciprocal", {builder.term(scale)});  // f32 whatever gradients are stored as
  return mapped(gradients, [&](ValueId id) { return (builder.term(id) * inverse).id(); });
}

struct Gradients {
  std::vector<ValueId> of_parameters;
  transform::Recomputed recomputed;
  size_t behind = 0;  // the first node that is no gradient any more
};

Gradients gradients_of(TrainedModel& model, const graph::OpTable& ops, ValueId scale, const TrainOptions& options) {
  const size_t forward = model.graph.nodes.size();
  Gradients out;
  out.of_parameters = scaled_gradients(model, ops, scale, out.behind);
  const size_t count = model.graph.nodes.size();
  out.recomputed = transform::recompute(model.graph, ops, forward, options.recompute);
  out.behind += model.graph.nodes.size() - count;
  return out;
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

// NAME.grad of parameter number `p`, or of those that lie in it.
void add_gradient(TrainedModel& model, const graph::OpTable& ops, size_t p, ValueId gradient) {
  if (model.parts[p].empty())
    return add_output(model.graph, ops, gradient, model.graph.value(model.parameters[p]).name + ".grad");
  int64_t row = 0;
  for (const driver::StatePair::Part& part : model.parts[p]) {
    const ValueId own = [&] {
      graph::GradientBuilder builder(model.graph, ops);
      builder.name_after(part.name + ".grad");
      const Shape stored = part.order.empty() ? part.shape : transform::permuted(part.shape, part.order);
      const Shape whole = model.graph.value(gradient).type.shape;
      const int64_t rows = num_elements(stored) / (whole.size() == 1 ? 1 : whole[1]);
      const Term lines = graph::reshape(graph::part(builder.term(gradient), 0, row, rows), stored);
      row += rows;
      return (part.order.empty() ? lines : graph::transpose(lines, transform::inverse_of(part.order))).id();
    }();
    add_output(model.graph, ops, own, part.name + ".grad");
  }
}

const TensorType kInteger{DataType::i64(), {}};

// The step, and with it the states.
graph::Graph step_graph(TrainedModel model, const graph::OpTable& ops, const TrainOptions& options, Training& out) {
  StepParts parts;
  parts.rate = model.graph.add_input("learning_rate", {DataType::f32(), {}});
  const bool draws = draws_numbers(model.graph);
  const ValueId seed = draws ? model.graph.add_input(kSeed, kInteger) : graph::kAbsent;
  parts.statistics = use_batch_statistics(model.graph, ops, model.statistics);
  StepStates states(model.graph);
  const ValueId runs = draws ? states.add(kRuns, kInteger) : graph::kAbsent;
  if (draws) seed_numbers(model.graph, seed, runs);
  if (options.scale) parts.scale = states.add(kLossScale, {DataType::f32(), {}}, number_of(options.scale->initial));
  Gradients gradients = gradients_of(model, ops, parts.scale, options);
  parts.gradients = std::move(gradients.of_parameters);
  out.recomputed = gradients.recomputed;
  const StepResults results = append_update(model, ops, options, parts, states);
  if (draws) {
    graph::GradientBuilder builder(model.graph, ops);
    states.leave(runs, builder.term(runs) + 1);
  }
  if (!options.recompute.is_off()) transform::place_early(model.graph, ops, gradients.behind);
  out.averages = mapped(results.averages, [&](ValueId id) { return model.graph.value(id).name; });
  model.graph.outputs.clear();
  add_output(model.graph, ops, results.loss, "loss");
  out.states = states.pairs();
  for (size_t s = 0; s < out.states.size(); ++s) add_output(model.graph, ops, states.next()[s], out.states[s].output);
  return std::move(model.graph);
}

graph::Graph grads_graph(TrainedModel model, const graph::OpTable& ops, const TrainOptions& options) {
  const bool draws = draws_numbers(model.graph);
  const ValueId seed = draws ? model.graph.add_input(kSeed, kInteger) : graph::kAbsent;
  if (draws) seed_numbers(model.graph, seed, model.graph.add_input(kRuns, kInteger));
  use_batch_statistics(model.graph, ops, model.statistics);
  const ValueId scale = options.scale ? model.graph.add_input(kLossScale, {DataType::f32(), {}}) : graph::kAbsent;
  const Gradients found = gradients_of(model, ops, scale, options);
  if (!options.recompute.is_off()) transform::place_early(model.graph, ops, found.behind);
  const std::vector<ValueId>& gradients = found.of_parameters;
  append(model.graph.inputs, model.parameters);
  model.graph.outputs = {model.loss};
  for (size_t p = 0; p < gradients.size(); ++p) add_gradient(model, ops, p, gradients[p]);
  return graph::compact(model.graph);  // without what follows the statistics
}

// By the averages of the parameters where there are some.
graph::Graph eval_graph(TrainedModel model, const TrainOptions& options, const std::vector<std::string>& averages) {
  for (size_t p = 0; p < averages.size(); ++p) {
    claim(model.graph, averages[p]);
    model.graph.values[static_cast<size_t>(model.parameters[p])].name = averages[p];
  }
  append(model.graph.inputs, model.parameters);
  append(model.graph.inputs, model.statistics);
  if (options.loss == Loss::kOutput) model.graph.outputs.clear();
  model.graph.outputs.push_back(model.loss);
  return std::move(model.graph);
}

}  // namespace

std::vector<std::string> seen_names(const std::vector<driver::StatePair>& states) {
  std::vector<std::string> names;
  for (const driver::StatePair& state : states) {
    if (state.parts.empty()) names.push_back(state.input);
    append(names, mapped(state.parts, &driver::StatePair::Part::name));
  }
  return names;
}

Training make_training(const std::vector<frontend::ImportResult>& models, const graph::OpTable& ops,
                       const TrainOptions& options) {
  Training all = make_training(models.front(), ops, options);
  const size_t count = all.functions.size();
  std::vector<Training> others;
  for (size_t m = 1; m < models.size(); ++m) {
    others.push_back(make_training(models[m], ops, options));
    if (mapped(others.back().states, &driver::StatePair::input) != mapped(all.states, &driver::StatePair::input) &&
        options.products == Products::kMerged) {  // products that one shape lets become one, and another does not
      TrainOptions apart = options;
      apart.products = Products::kApart;
      return make_training(models, ops, apart);
    }
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
  if (options.scale && options.not_finite == NotFinite::kUsed)
    throw UserError("a loss scale finds its value by steps that are not finite: they must be skipped");
  const TrainedModel trained = make_trained_model(model, ops, options);
  Training out;
  out.masks = trained.masks;
  for (size_t p = 0; p < trained.parameters.size(); ++p)
    append(out.parameters, seen_names({{trained.graph.value(trained.parameters[p]).name, "", {}, trained.parts[p]}}));
  out.functions.push_back({"step", step_graph(trained, ops, options, out)});
  out.functions.push_back({"grads", grads_graph(trained, ops, options)});
  out.functions.push_back({"eval", eval_graph(trained, options, out.averages)});
  return out;
}

}  // namespace tw::train
