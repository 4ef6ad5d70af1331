// tilewright analyze MODEL: flop and words of each operator and edge, classes of operators, memory use efficiency.
#include <algorithm>

#include "driver/compile.h"
#include "ops/list.h"
#include "runtime/format/atomic_file.h"
#include "support/error.h"
#include "support/join.h"
#include "tilewright/analyze/analysis_text.h"
#include "tilewright/explained.h"
#include "tilewright/progress.h"
#include "tilewright/train/train_options.h"
#include "tilewright/verb.h"
#include "train/training_graph.h"

namespace tw::cli {
namespace {

// The function of the training of the model that the options name.
graph::Graph function_of(const frontend::ImportResult& model, const VerbOptions& options) {
  train::Training training = train::make_training(model, ops::all_ops(), train_options(options));
  const auto found = std::ranges::find(training.functions, options.inputs.function, &driver::FunctionGraph::function);
  if (found != training.functions.end()) return std::move(found->graph);
  const auto names = mapped(training.functions, [](const driver::FunctionGraph& f) { return f.function; });
  throw UsageError("--function {}: a training has {}", options.inputs.function, fmt::join(names, ", "));
}

// The imported model of the entry that the options name, or a function of its training.
Analysis count_model(const GlobalOptions& global, const VerbOptions& options) {
  if (!options.inputs.entry.empty())
    throw UsageError("--entry is for code: with --no-run, --shape and --dim say which shapes '{}' has", options.model);
  const bool is_training = !options.inputs.function.empty();
  if (!is_training && !options.training_option.empty())
    throw UsageError("{} is about training: say which function of it with --function step, grads or eval",
                     options.training_option);
  Progress progress(global);
  const driver::CompileOptions compile = with_surroundings(options.compile, progress);
  try {
    const auto models =
        is_training ? import_for_training(options.model, compile) : driver::import_file(options.model, compile);
    if (models.size() > 1)
      throw UsageError("one combination of shapes is counted at a time: --shape and --dim take one value here");
    const graph::Graph graph = is_training ? function_of(models.front(), options) : models.front().graph;
    return {options.model, artefact::analyze_operators(artefact::model_operators(graph))};
  } catch (const frontend::NotAModel& error) {
    throw neither(options.model, error);
  }
}

// Throws where options about training are not for what is analyzed.
void check_training(const VerbOptions& options, bool only_counts) {
  if (only_counts) return;
  if (!options.training_option.empty())
    throw UsageError("{} is for counting the training of an ONNX model: --no-run --function step, grads or eval",
                     options.training_option);
  if (!options.inputs.function.empty() && !is_artefact(options.model))
    throw UsageError(
        "--function of an ONNX model is counted alone: with --no-run, or compile it with \"tilewright train\"");
}

Analysis analyze_code(const GlobalOptions& global, const VerbOptions& options) {
  const LoadedModel model = load_model(global, options);
  const auto [run, target] = examine(global, model, options);
  const graph::Graph graph = model.sources.empty()
                                 ? artefact::artefact_operators(model.artefact, run)
                                 : artefact::model_operators(model.sources[static_cast<size_t>(run.entry)].graph);
  return {options.model,
          artefact::analyze_operators(graph),
          artefact::analyze_groups(model.artefact, run, target),
          run.level,
          target.info.kind == DeviceKind::kCuda ? 0 : run.threads,
          target.info.parameters_from};
}

int analyze(const GlobalOptions& global, const VerbOptions& options) {
  keep_input(options.model, options.dot);
  const bool only_counts = options.no_run && !is_artefact(options.model);
  check_training(options, only_counts);
  const Analysis analysis = only_counts ? count_model(global, options) : analyze_code(global, options);
  if (!options.dot.empty()) format::write_file_atomically(options.dot, format::bytes_of(analysis_dot(analysis)));
  if (global.json) {
    print_json("tilewright.analyze.v1", analysis_json(analysis));
    return kOk;
  }
  print_analysis(global, analysis, {options.top, options.edges});
  return kOk;
}

}  // namespace

void add_analyze(Application& application) {
  add_verb(application,
           {"analyze",
            "Example: tilewright analyze resnet50.onnx --no-run --top 20\n\nShows what a model computes and what it "
            "moves. Each operator has its flop, the words that it reads and writes, and its class: tensor contraction, "
            "statistical normalization or element-wise. Compiled groups have their share of the memory's speed (MUE) "
            "and of the peak of operations, and which of the two limits them.",
            "MODEL", "Artefact (.tw) or ONNX model", analyze});
}

}  // namespace tw::cli
