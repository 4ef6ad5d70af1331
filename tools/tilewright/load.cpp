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
  Progress progress(global);
  driver::CompileOptions options = to_compile_options(compile, progress);
  loaded.sources = driver::import_file(model, options);
  const auto [cache, key] = find_in_cache(model, compile, options, progress);
  if (key) {
    if (const auto hit = cache.find(*key)) {
      loaded.artefact.assign(hit->artefact.bytes().begin(), hit->artefact.bytes().end());
      return loaded;
    }
  }
  const driver::Compiled compiled = driver::compile_imported(loaded.sources, options);
  loaded.artefact = driver::artefact_bytes(compiled);
  if (key) cache.store(*key, loaded.artefact, compiled);
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
