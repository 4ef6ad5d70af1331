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

/// Reads an artefact, whose signature is one of --trust or $TILEWRIGHT_TRUSTED_KEYS where there are such keys; compiles
/// anything else.
LoadedModel load_model(const GlobalOptions& global, const VerbOptions& options);

/// Whether the file is an artefact, or only named like one.
bool is_artefact(const std::string& model);

/// The error about a file that is neither an artefact nor what import can read.
UserError neither(const std::string& file, const frontend::NotAModel& error);

/// A session on the model; errors name it, and what the runtime warns of is a note.
artefact::Session open_session(const GlobalOptions& global, const LoadedModel& model, artefact::SessionOptions options);

/// "entry x:8x3, one of 4": the entry that a session is bound to; nothing where there is only one.
std::string bound_entry_text(const artefact::Session& session);

}  // namespace tw::cli
