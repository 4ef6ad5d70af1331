#include "tilewright/load.h"

#include "support/error.h"
#include "tilewright/progress.h"

namespace tw::cli {

LoadedModel load_model(const GlobalOptions& global, const std::string& model, const ModelOptions& compile) {
  LoadedModel loaded;
  loaded.name = model;
  if (model.ends_with(".tw")) {
    for (const CLI::Option* o : compile.registered) {
      if (o->count() > 0 && o->get_envname().empty())
        throw UsageError(fmt::format("{} is for models: '{}' is compiled already", o->get_name(), model));
    }
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

void add_level_option(CLI::App& app, std::string& level) {
  app.add_option("--level", level,
                 "Of an artefact for several CPU levels the one to use, as x86-64-v3 (default: the best one that this "
                 "machine runs; $TILEWRIGHT_LEVEL)")
      ->envname("TILEWRIGHT_LEVEL");
}

artefact::Session open_session(const LoadedModel& model, const artefact::SessionOptions& options) {
  try {
    return artefact::Session::load_memory(model.artefact, options);
  } catch (const artefact::RuntimeFailure& failure) {
    throw artefact::RuntimeFailure(failure.exit_code(), fmt::format("'{}': {}", model.name, failure.what()));
  }
}

}  // namespace tw::cli
