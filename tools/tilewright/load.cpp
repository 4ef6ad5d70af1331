#include "tilewright/load.h"

namespace tw::cli {

driver::Session open_model(const std::string& model, const ModelOptions& compile, const driver::SessionOptions& session) {
  if (model.ends_with(".tw")) return driver::Session::load_file(model, session);
  driver::CompileOptions options = to_compile_options(compile);
  Progress progress;
  options.progress = std::ref(progress);
  return driver::Session::load_memory(driver::artefact_bytes(driver::compile_file(model, options)), session);
}

}  // namespace tw::cli
