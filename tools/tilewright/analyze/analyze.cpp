// tilewright analyze MODEL: flop and words of each operator and edge, classes of operators, memory use efficiency.
#include "driver/compile.h"
#include "runtime/format/atomic_file.h"
#include "support/error.h"
#include "tilewright/analyze/analysis_text.h"
#include "tilewright/explained.h"
#include "tilewright/progress.h"
#include "tilewright/verb.h"

namespace tw::cli {
namespace {

// The imported model of the entry that the options name.
Analysis count_model(const GlobalOptions& global, const VerbOptions& options) {
  if (!options.inputs.entry.empty())
    throw UsageError("--entry is for code: with --no-run, --shape and --dim say which shapes '{}' has", options.model);
  Progress progress(global);
  try {
    const auto models = driver::import_file(options.model, with_surroundings(options.compile, progress));
    if (models.size() > 1)
      throw UsageError("one combination of shapes is counted at a time: --shape and --dim take one value here");
    return {options.model, artefact::analyze_operators(artefact::model_operators(models.front().graph))};
  } catch (const frontend::NotAModel& error) {
    throw neither(options.model, error);
  }
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
