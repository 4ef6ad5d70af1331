#include "tilewright/load.h"

#include "support/error.h"
#include "tilewright/progress.h"

namespace tw::cli {

LoadedModel load_model(const GlobalOptions& global, const std::string& model, const ModelOptions& compile) {
  LoadedModel loaded;
  loaded.name = model;
  if (model.ends_with(".tw")) {
    loaded.artefact = read_file(model);
    return loaded;
  }
  driver::CompileOptions options = to_compile_options(compile);
  Progress progress(global);
  options.progress = std::ref(progress);
  loaded.sources = driver::import_file(model, options);
  loaded.artefact = driver::artefact_bytes(driver::compile_imported(loaded.sources, options));
  return loaded;
}

driver::Session open_session(const LoadedModel& model, const driver::SessionOptions& options) {
  try {
    return driver::Session::load_memory(model.artefact, options);
  } catch (const driver::RuntimeFailure& failure) {
    throw driver::RuntimeFailure(failure.exit_code(), fmt::format("'{}': {}", model.name, failure.what()));
  }
}

}  // namespace tw::cli
