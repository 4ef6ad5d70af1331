// MODEL of run, bench and verify: an artefact by its name, or an ONNX model that is compiled first.
#pragma once
#include "artefact/session.h"
#include "frontend/onnx/import.h"
#include "tilewright/command.h"
#include "tilewright/model_options.h"

namespace tw::cli {

struct LoadedModel {
  std::string name;  // as it was given
  std::vector<uint8_t> artefact;
  std::vector<frontend::ImportResult> sources;  // one for each entry; none for a model that is an artefact
  std::vector<driver::PassTime> times = {};     // of the compilation, measuring last; none where there was none
};

/// Reads NAME.tw, compiles anything else.
LoadedModel load_model(const GlobalOptions& global, const VerbOptions& options);

/// A session on the model; errors name it.
artefact::Session open_session(const LoadedModel& model, const artefact::SessionOptions& options);

}  // namespace tw::cli
