#include "tilewright/load.h"

#include "runtime/format/container.h"
#include "support/error.h"
#include "support/mapped_file.h"
#include "tilewright/progress.h"

namespace tw::cli {

bool is_artefact(const std::string& model) {
  if (model.ends_with(".tw")) return true;
  const Result<MappedFile> file = MappedFile::open(model);
  return file.ok() && format::begins_as_artefact(file->bytes());
}

UserError neither(const std::string& file, const frontend::NotAModel& error) {
  return UserError("'{}' is neither a .tw artefact nor an ONNX model, or truncated: {}", file, error.sign());
}

LoadedModel load_model(const GlobalOptions& global, const VerbOptions& given) {
  const std::string& model = given.model;
  LoadedModel loaded;
  loaded.name = model;
  if (is_artefact(model)) {
    if (!given.compile_option.empty())
      throw UsageError("{} is for ONNX models: '{}' is compiled already", given.compile_option, model);
    loaded.artefact = read_file(model);
    return loaded;
  }
  Progress progress(global);
  driver::CompileOptions options = with_surroundings(given.compile, progress);
  try {
    loaded.sources = driver::import_file(model, options);
  } catch (const frontend::NotAModel& error) {
    throw neither(model, error);
  }
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

artefact::Session open_session(const GlobalOptions& global, const LoadedModel& model,
                               artefact::SessionOptions options) {
  options.notice = [global](const std::string& sentence) { note(global, sentence); };
  try {
    return artefact::Session::load_memory(model.artefact, options);
  } catch (const artefact::RuntimeFailure& failure) {
    throw artefact::RuntimeFailure(failure.exit_code(), fmt::format("'{}': {}", model.name, failure.what()));
  }
}

std::string bound_entry_text(const artefact::Session& session) {
  const std::vector<std::string> entries = session.entries();
  if (entries.size() == 1) return "";
  return fmt::format("entry {}, one of {}", entries[static_cast<size_t>(session.bound_entry())], entries.size());
}

}  // namespace tw::cli
