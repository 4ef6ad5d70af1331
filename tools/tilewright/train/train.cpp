// tilewright train MODEL.onnx --loss cross_entropy --optimizer adamw -o MODEL.train.tw
#include <algorithm>
#include <filesystem>

#include "driver/compile.h"
#include "driver/outcome.h"
#include "support/error.h"
#include "support/join.h"
#include "support/text.h"
#include "tilewright/load.h"
#include "tilewright/model_options.h"
#include "tilewright/progress.h"
#include "tilewright/train/memory_limit.h"
#include "tilewright/train/train_options.h"
#include "tilewright/verb.h"
#include "train/training_graph.h"

namespace tw::cli {
namespace {

void check_words(const VerbOptions& options, const std::string& output) {
  if (is_artefact(options.model))
    throw UsageError("'{}' is compiled already: what is trained is an ONNX model", options.model);
  if (!output.ends_with(".tw")) throw UsageError("-o '{}': the name of an artefact ends in .tw", output);
  if (!options.compile.states.empty()) throw UsageError("--state: parameters are the states of a training step");
  keep_input(options.model, output);
}

// How many parameters there are, and how many elements they have.
std::pair<int64_t, int64_t> parameters(const train::Training& training) {
  int64_t elements = 0;
  for (const driver::StatePair& state : training.states) {
    const std::string& first = state.parts.empty() ? state.input : state.parts.front().name;
    if (std::ranges::count(training.parameters, first) != 0) elements += state.initial->type.elements();
  }
  return {std::ssize(training.parameters), elements};
}

std::vector<std::string> function_names(const train::Training& training) {
  std::vector<std::string> names;
  for (const driver::FunctionGraph& f : training.functions) {
    if (names.empty() || names.back() != f.function) names.push_back(f.function);
  }
  return names;
}

std::string memory_text(const TrainingMemory& memory) {
  const auto functions = mapped(memory.functions, [](const auto& f) {
    return fmt::format("{} in {}", size_text(static_cast<double>(f.second)), f.first);
  });
  return fmt::format("memory: {} of states; beside them {}", size_text(static_cast<double>(memory.states)),
                     fmt::join(functions, ", "));
}

// What is computed again, and what that costs; empty where all is kept.
std::string recomputed_text(const CompiledTraining& made) {
  const transform::Recomputed& again = made.training.recomputed;
  if (again.values == 0) return "";
  return fmt::format(
      "computed again in the backward pass: {} of {}; {:.1f} % more arithmetic of products in a step, which would take "
      "{} "
      "if all was kept",
      count_text(again.values, "value"), size_text(static_cast<double>(again.bytes)), 100 * made.more_flop,
      size_text(static_cast<double>(made.peak_of_kept)));
}

void print_text(const GlobalOptions& global, const train::Training& training, const std::string& line) {
  say(global, line);
  const graph::Graph& step = training.functions.front().graph;
  const auto inputs = std::span(step.inputs).first(step.inputs.size() - training.states.size());
  const auto names = mapped(inputs, [&](graph::ValueId id) { return step.value(id).name; });
  const auto [count, elements] = parameters(training);
  say(global, fmt::format("a run is a step: it takes {} and gives loss; it trains {} of {} elements in all",
                          fmt::join(names, ", "), count_text(count, "parameter"), elements));
  if (!training.masks.empty())
    say(global,
        fmt::format("constants, since they hold a mask's numbers and no weights: {}", fmt::join(training.masks, ", ")));
  say(global,
      "beside it, without a change: --function grads gives loss and gradients, eval the model's output and loss");
}

int train_model(const GlobalOptions& global, const VerbOptions& options) {
  std::string output = options.trained_output;
  if (output.empty()) output = std::filesystem::path(options.model).filename().replace_extension(".train.tw").string();
  check_words(options, output);
  const train::TrainOptions chosen = train_options(options);
  Progress progress(global);
  const driver::CompileOptions compile = with_surroundings(options.compile, progress);
  const double start = now_seconds();
  const std::vector<frontend::ImportResult> models = import_for_training(options.model, compile);
  const CompiledTraining made = compile_within(options.memory_limit, models, chosen, compile);
  const train::Training& training = made.training;
  const driver::Compiled& compiled = made.compiled;
  if (!options.compile.stop_after.empty()) return kOk;
  driver::write_artefact(compiled, output);
  const driver::CompileOutcome outcome = driver::outcome_of(compiled);
  progress.clear();
  for (const std::string& warning : outcome.summary.warnings) print_error("tilewright: warning: {}\n", warning);
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(output));
  const double seconds = now_seconds() - start;
  if (global.json) {
    const auto [count, elements] = parameters(training);
    nlohmann::ordered_json document = {{"output", output},
                                       {"bytes", bytes},
                                       {"seconds", seconds},
                                       {"parameters", count},
                                       {"elements", elements},
                                       {"loss", name_of(chosen.loss)},
                                       {"optimizer", name_of(chosen.optimizer.method)}};
    document["states"] = train::seen_names(training.states);
    document["functions"] = function_names(training);
    document["masks"] = training.masks;
    const TrainingMemory memory = memory_of(compiled);
    document["memory"] = {{"states", memory.states}, {"peak", memory.peak()}};
    for (const auto& [function, bytes] : memory.functions) document["memory"][function] = bytes;
    document["recomputed"] = {
        {"values", training.recomputed.values}, {"bytes", training.recomputed.bytes}, {"more_flop", made.more_flop}};
    document["profiling"] = driver::to_json(outcome.profiling);
    print_json("tilewright.train.v1", document);
    return kOk;
  }
  print_text(global, training,
             fmt::format("{} -> {} ({}) for {} in {}", options.model, output, size_text(static_cast<double>(bytes)),
                         outcome.summary.target, time_text(seconds)));
  say(global, memory_text(memory_of(compiled)));
  say_winograd(global, outcome.summary);
  say_measured(global, outcome.profiling);
  say_layouts(global, compiled.plan);
  if (const std::string again = recomputed_text(made); !again.empty()) say(global, again);
  return kOk;
}

}  // namespace

void add_train(Application& application) {
  add_verb(
      application,
      {"train",
       "Example: tilewright train model.onnx --loss cross_entropy --optimizer adamw -o model.train.tw\n\nMakes what "
       "trains a model: its steps, gradients and evaluation. A step is both passes, loss and optimizer in one. "
       "Parameters are states that the artefact keeps on its device; so are the optimizer's moments.",
       "MODEL", "ONNX model", train_model});
}

}  // namespace tw::cli
