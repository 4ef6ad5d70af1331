// What the verbs that look into an artefact share: which code it is about, for which machine, and a profile of it.
#pragma once
#include "artefact/explain.h"
#include "tilewright/load.h"
#include "tilewright/verb_options.h"

namespace tw::cli {

struct ExplainedModel {
  artefact::Explained run;  // without steps where --no-run was given
  targets::Target target;   // with the machine's measured parameters
};

/// Runs and profiles the entry that `options` name, on seeded inputs; with --no-run it finds the entry alone, for which
/// a GPU need not be there. Throws as Session does, UsageError where there is no such entry.
ExplainedModel examine(const GlobalOptions& global, const LoadedModel& model, const VerbOptions& options);

/// Writes the file of --trace-out. `track` says what ran the steps: "stream", "2 threads". UsageError where it would
/// replace the model.
void write_trace(const VerbOptions& options, std::span<const artefact::StepTime> steps, const std::string& track);

}  // namespace tw::cli
