#include "tilewright/load.h"

#include <algorithm>
#include <span>

#include "driver/artefact/source.h"
#include "frontend/onnx/import.h"
#include "runtime/format/container.h"
#include "support/error.h"
#include "support/join.h"
#include "support/mapped_file.h"
#include "tilewright/progress.h"
#include "tilewright/trust/trusted.h"

namespace tw::cli {

bool is_artefact(const std::string& model) {
  if (model.ends_with(".tw")) return true;
  const Result<MappedFile> file = MappedFile::open(model);
  return file.ok() && format::begins_as_artefact(file->bytes());
}

UserError neither(const std::string& file, const frontend::NotAModel& error) {
  return UserError("'{}' is neither a .tw artefact nor an ONNX model, or truncated: {}", file, error.sign());
}

namespace {

// Whether the values have these names and shapes. Those of states are behind them.
bool begins_with(const graph::Graph& graph, const std::vector<graph::ValueId>& values,
                 const std::vector<format::TensorSpec>& specs) {
  const auto same = [&](const format::TensorSpec& spec, graph::ValueId id) {
    return graph.value(id).name == spec.name && graph.value(id).type.shape == spec.shape;
  };
  return values.size() >= specs.size() && std::ranges::equal(specs, std::span(values).first(specs.size()), same);
}

// The model that the artefact is said to come from, imported with the options that the artefact was compiled with.
std::vector<frontend::ImportResult> import_source(const std::string& source, const LoadedModel& loaded) {
  const format::Artefact artefact = parse_artefact(loaded.name, loaded.artefact);
  if (artefact.section("source").empty())
    throw UsageError("--source '{}': '{}' was not compiled from an ONNX model", source, loaded.name);
  const auto options = driver::options_of(driver::parse_source(artefact.section("source")));
  std::vector<frontend::ImportResult> models;
  try {
    models = driver::import_file(source, options);
  } catch (const frontend::NotAModel& error) {
    throw neither(source, error);
  }
  const format::Manifest& manifest = artefact.manifest();
  for (size_t m = 0; m < models.size() && m < manifest.combinations(); ++m) {
    const graph::Graph& graph = models[m].graph;
    const format::Entry& entry = manifest.entries[m];
    if (!begins_with(graph, graph.inputs, entry.inputs) || !begins_with(graph, graph.outputs, entry.outputs))
      throw UsageError("--source '{}': its inputs and outputs are not those of '{}'", source, loaded.name);
  }
  return models;
}

// Dimensions that neither the model nor an option says are those of the arrays that the model is to be run on.
void take_shapes(const std::string& model, const InputOptions& inputs, frontend::ImportOptions& import) {
  if (inputs.inputs.empty()) return;
  const std::vector<frontend::ModelSummary::Value> values = frontend::summarize_onnx_file(model).inputs;
  const auto given = given_shapes(inputs, mapped(values, &frontend::ModelSummary::Value::name));
  for (const auto& value : values) {
    const auto array = given.find(value.name);
    if (array == given.end() || !value.is_open || import.constants.contains(value.name)) continue;
    import.shapes.emplace(value.name, array->second);
  }
}

}  // namespace

LoadedModel load_model(const GlobalOptions& global, const VerbOptions& given) {
  const std::string& model = given.model;
  LoadedModel loaded;
  loaded.name = model;
  if (is_artefact(model)) {
    if (!given.compile_option.empty())
      throw UsageError("{} is for ONNX models: '{}' is compiled already", given.compile_option, model);
    loaded.artefact = read_file(model);
    check_signature(model, loaded.artefact, given.trusted);
    if (!given.source.empty()) loaded.sources = import_source(given.source, loaded);
    return loaded;
  }
  if (!given.source.empty())
    throw UsageError("--source is for artefacts: '{}' is an ONNX model, and its own reference", model);
  Progress progress(global);
  driver::CompileOptions options = with_surroundings(given.compile, progress);
  try {
    if (options.imports.size() == 1) take_shapes(model, given.inputs, options.imports.front());
    loaded.sources = driver::import_file(model, options);
  } catch (const frontend::NotAModel& error) {
    throw neither(model, error);
  }
  for (const std::string& warning : loaded.sources.front().warnings) print_error("tilewright: warning: {}\n", warning);
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
