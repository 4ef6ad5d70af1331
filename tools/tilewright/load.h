// MODEL of run, bench and verify: an artefact by its name, or an ONNX model that is compiled first.
#pragma once
#include "driver/session.h"
#include "tilewright/command.h"
#include "tilewright/model_options.h"

namespace tw::cli {

/// A session on `model`: loads NAME.tw, compiles anything else.
driver::Session open_model(const std::string& model, const ModelOptions& compile,
                           const driver::SessionOptions& session);

/// The same, with the flop of the model's sums of products (2 for each multiply and add; 0 when the artefact does not
/// say).
struct CountedModel {
  driver::Session session;
  double flop = 0;
};
CountedModel open_counted(const std::string& model, const ModelOptions& compile, const driver::SessionOptions& session);

}  // namespace tw::cli
