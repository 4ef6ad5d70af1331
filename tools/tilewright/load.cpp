#include "tilewright/load.h"

#include "runtime/format/container.h"

namespace tw::cli {

LoadedModel load_model(const std::string& model, const ModelOptions& compile) {
  LoadedModel loaded;
  if (model.ends_with(".tw")) {
    loaded.artefact = read_file(model);
    parse_artefact(model, loaded.artefact);  // so that what is wrong with it is said of this file
    return loaded;
  }
  driver::CompileOptions options = to_compile_options(compile);
  Progress progress;
  options.progress = std::ref(progress);
  loaded.sources = driver::import_file(model, options);
  loaded.artefact = driver::artefact_bytes(driver::compile_imported(loaded.sources, options));
  return loaded;
}

}  // namespace tw::cli
