#include "tilewright/load.h"

#include <cstdlib>

#include "runtime/format/container.h"

namespace tw::cli {
namespace {

double noted_flop(const format::Manifest& manifest) {
  constexpr std::string_view kNote = "contraction flop: ";
  for (const std::string& note : manifest.notes) {
    if (note.starts_with(kNote)) return std::strtod(note.c_str() + kNote.size(), nullptr);
  }
  return 0;
}

}  // namespace

CountedModel open_counted(const std::string& model, const ModelOptions& compile,
                          const driver::SessionOptions& session) {
  if (model.ends_with(".tw")) {
    std::vector<uint8_t> bytes = read_file(model);
    const double flop = noted_flop(parse_artefact(model, bytes).manifest());
    return {driver::Session::load_memory(bytes, session), flop};
  }
  driver::CompileOptions options = to_compile_options(compile);
  Progress progress;
  options.progress = std::ref(progress);
  const driver::Compiled compiled = driver::compile_file(model, options);
  return {driver::Session::load_memory(driver::artefact_bytes(compiled), session), noted_flop(compiled.manifest)};
}

driver::Session open_model(const std::string& model, const ModelOptions& compile,
                           const driver::SessionOptions& session) {
  if (model.ends_with(".tw")) return driver::Session::load_file(model, session);
  return open_counted(model, compile, session).session;
}

}  // namespace tw::cli
