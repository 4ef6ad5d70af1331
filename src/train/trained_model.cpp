#include "train/trained_model.h"

#include <cstring>

#include "support/join.h"
#include "train/batch_statistics.h"
#include "train/loss.h"
#include "train/loss_scale.h"
#include "train/random_numbers.h"
#include "train/stacked.h"
#include "transform/loops/unroll.h"

namespace tw::train {
namespace {

using graph::ValueId;

constexpr const char* kOwnNames[] = {"labels",      "learning_rate", "loss",       "step",
                                     "run_of_step", kLossScale,      "good_steps", kSkippedSteps};

// Whether these are what a mask adds to scores, 0 where it leaves them and else a number that nothing learns.
bool is_mask(const graph::Value& value) {
  constexpr float kLowest = -1e4;  // as the mildest of exporters has it
  const std::span<const std::byte> bytes = *value.constant;
  bool hides = false;
  for (size_t at = 0; at < bytes.size(); at += sizeof(float)) {
    float x = 0;
    std::memcpy(&x, bytes.data() + at, sizeof x);
    if (x > kLowest && x != 0) return false;
    hides = hides || x <= kLowest;
  }
  return hides;
}

class ModelMaker {
 public:
  ModelMaker(const frontend::ImportResult& model, const graph::OpTable& ops, const TrainOptions& options)
      : ops_(ops), options_(options) {
    out_.graph = with_dropouts_of_ones(transform::unroll_all(model.graph, ops), ops);
    find_parameters(model.weights);
  }

  TrainedModel run() {
    const ValueId y = output();
    for (const char* name : kOwnNames) claim(graph(), name);
    if (draws_numbers(graph())) {
      for (const char* name : kNamesOfRandom) claim(graph(), name);
    }
    const ValueId labels = add_labels(y);
    out_.initial = mapped(out_.parameters, [&](ValueId id) { return freed(id); });
    out_.initial_statistics = mapped(out_.statistics, [&](ValueId id) { return freed(id); });
    graph::GradientBuilder builder(graph(), ops_);
    out_.loss = loss_of(options_, builder.term(y), builder.term(labels)).id();
    graph().values[static_cast<size_t>(out_.loss)].name = "loss";
    return std::move(out_);
  }

 private:
  graph::Graph& graph() { return out_.graph; }

  void find_parameters(const std::set<std::string>& weights) {
    part_statistics(graph());
    const std::set<std::string> trained = trained_of(weights);
    StackedGraph stacked = stack_parameters(graph(), ops_, trained, options_);
    graph() = std::move(stacked.graph);
    if (options_.statistics == Statistics::kOfBatch) out_.statistics = running_statistics(graph());
    for (ValueId id = 0; id < std::ssize(graph().values); ++id) {
      const graph::Value& value = graph().value(id);
      const int64_t stack = index_of(stacked.stacks, value.name, &ParameterStack::name);
      if (!value.is_constant() || (stack < 0 && !trained.contains(value.name))) continue;
      out_.parameters.push_back(id);
      out_.parts.emplace_back();
      if (stack >= 0) out_.parts.back() = stacked.stacks[static_cast<size_t>(stack)].parts;
    }
  }

  std::set<std::string> trained_of(const std::set<std::string>& weights) {
    std::vector<std::string> known;
    std::set<std::string> trained;
    const std::vector<ValueId> measured = running_statistics(graph());
    for (ValueId id = 0; id < std::ssize(graph().values); ++id) {
      const graph::Value& value = graph().value(id);
      if (!value.is_constant() || !weights.contains(value.name) || value.type.type != DataType::f32()) continue;
      if (std::ranges::count(measured, id) != 0) continue;
      if (is_mask(value)) {
        out_.masks.push_back(value.name);
        continue;
      }
      known.push_back(value.name);
      if (options_.trained.empty() || is_one_of(value.name, options_.trained)) trained.insert(value.name);
    }
    if (!trained.empty()) return trained;
    if (known.empty()) throw UserError("the model has no parameters: no initializer of f32 that has dimensions");
    const std::string masks =
        out_.masks.empty() ? "" : fmt::format("; a mask's numbers are none: {}", fmt::join(out_.masks, ", "));
    throw UserError("no parameter is trained: none is called {}; the model has {}{}", fmt::join(options_.trained, ", "),
                    fmt::join(known, ", "), masks);
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

  // What was a constant will be a state; its elements.
  driver::InitialValue freed(ValueId id) {
    graph::Value& value = graph().values[static_cast<size_t>(id)];
    return {value.type, std::exchange(value.constant, nullptr)};
  }

  const graph::OpTable& ops_;
  const TrainOptions& options_;
  TrainedModel out_;
};

}  // namespace

void claim(graph::Graph& graph, const std::string& name) {
  const ValueId other = graph.find_value(name);
  if (other == graph::kAbsent) return;
  if (std::ranges::count(graph.inputs, other) != 0)
    throw UserError("the model has an input '{}', which is the name of one of the step: rename it in the model", name);
  graph.values[static_cast<size_t>(other)].name = graph::NameSet(graph).unique(name + ".model");
}

TrainedModel make_trained_model(const frontend::ImportResult& model, const graph::OpTable& ops,
                                const TrainOptions& options) {
  return ModelMaker(model, ops, options).run();
}

}  // namespace tw::train
