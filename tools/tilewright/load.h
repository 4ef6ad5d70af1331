// MODEL of run, bench and verify: an artefact by its name, or an ONNX model that is compiled first.
#pragma once
#include "driver/session.h"
#include "frontend/onnx/import.h"
#include "tilewright/command.h"
#include "tilewright/model_options.h"

namespace tw::cli {

struct LoadedModel {
  std::vector<uint8_t> artefact;
  std::vector<frontend::ImportResult> sources;  // one for each entry; none for a model that is an artefact
};

/// Reads NAME.tw, compiles anything else.
LoadedModel load_model(const std::string& model, const ModelOptions& compile);

}  // namespace tw::cli
