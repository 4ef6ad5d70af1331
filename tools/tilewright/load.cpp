#include "tilewright/load.h"

#include "support/error.h"
#include "tilewright/progress.h"

namespace tw::cli {

LoadedModel load_model(const GlobalOptions& global, const VerbOptions& given) {
  const std::string& model = given.model;
  LoadedModel loaded;
  loaded.name = model;
  if (model.ends_with(".tw")) {
    if (!given.compile_option.empty())
      throw UsageError(fmt::format("{} is for models: '{}' is compiled already", given.compile_option, model));
    loaded.artefact = read_file(model);
    return loaded;
  }
  Progress progress(global);
  driver::CompileOptions options = with_surroundings(given.compile, progress);
  loaded.sources = driver::import_file(model, options);
  const auto [cache, key] = find_in_cache(model, options, progress);
  if (key) {
    if (const auto hit = cache.find(*key)) {
      loaded.artefact.assign(hit->artefact.bytes().begin(), hit->artefact.bytes().end());
      return loaded;
    }
  }
  const driver::Compiled compiled = driver::compile_imported(loaded.sources, options);
  loaded.artefact = driver::artefact_bytes(compiled);
  loaded.times = compiled.times;
  if (compiled.profiling.candidates > 0)
    loaded.times.push_back({"measure", "candidates", static_cast<int64_t>(compiled.profiling.seconds * 1e9)});
  if (key) cache.store(*key, loaded.artefact, compiled);
  return loaded;
}

artefact::Session open_session(const LoadedModel& model, const artefact::SessionOptions& options) {
  try {
    return artefact::Session::load_memory(model.artefact, options);
  } catch (const artefact::RuntimeFailure& failure) {
    throw artefact::RuntimeFailure(failure.exit_code(), fmt::format("'{}': {}", model.name, failure.what()));
  }
}

}  // namespace tw::cli
