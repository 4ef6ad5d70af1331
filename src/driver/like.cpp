#include "driver/like.h"

#include "driver/ranges.h"
#include "driver/states.h"
#include "runtime/format/container.h"
#include "support/hash.h"
#include "support/mapped_file.h"

namespace tw::driver {
namespace {

template <typename T>
void adopt_value(T& value, const T& then) {
  if (value == T()) value = then;
}

}  // namespace

const plan::EntryPlan* Like::nearest(const std::string& target) const {
  const auto found = std::ranges::find(plan.entries, target, &plan::EntryPlan::target);
  return found == plan.entries.end() ? nullptr : &*found;
}

std::shared_ptr<const Like> read_like(const std::string& spelled, const std::string& path) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) throw UsageError("{}: {}", spelled, file.reason());
  auto like = std::make_shared<Like>();
  like->hash = hash_pieces(file->bytes());
  bool is_whole = false;
  try {
    const format::Artefact artefact = format::Artefact::parse(file->bytes(), "weights");
    const format::Bytes plan = artefact.section("plan"), source = artefact.section("source");
    is_whole = !plan.empty() && !source.empty() && format::functions_of(artefact.manifest()).size() == 1;
    if (is_whole) like->source = parse_source(source);
    if (is_whole) like->plan = plan::parse_plan(std::string(plan.begin(), plan.end()));
  } catch (const std::exception& error) {
    throw UsageError("{} '{}': {}", spelled, path, error.what());
  }
  if (!is_whole || like->plan.entries.empty() || like->source.options.imports.empty())
    throw UsageError("{} '{}': the artefact trains, or does not hold what it was made from", spelled, path);
  return like;
}

void adopt(const Like& like, ModelOptions& options) {
  const ModelOptions& then = like.source.options;
  if (options.precision == Precision::kDefault) options.precision = then.precision;
  if (options.dtype == DataType::f32()) options.dtype = then.dtype;
  adopt_value(options.disabled_passes, then.disabled_passes);
  adopt_value(options.disabled_families, then.disabled_families);
  adopt_value(options.all_optional_off, then.all_optional_off);
  if (options.states.empty()) options.states = then.states;
  for (frontend::ImportOptions& import : options.imports) {
    import.constants.insert(then.imports.front().constants.begin(), then.imports.front().constants.end());
    import.bounds.insert(then.imports.front().bounds.begin(), then.imports.front().bounds.end());
  }
}

void check_model(const Like& like, const frontend::ImportResult& model,
                 const std::function<frontend::ImportResult(const frontend::ImportOptions&)>& import) {
  if (model_hash(model) == like.source.model) return;
  const ModelOptions& then = like.source.options;
  const auto states_last = [&](const graph::Graph& graph) { return with_states_last(graph, then.states, then.dtype); };
  frontend::ImportResult first = import(then.imports.front());
  first.graph = states_last(first.graph);
  const graph::Graph whole = states_last(with_ranges(first, then.imports.front(), least_of(then, 0)).graph);
  if (content_hash(graph::to_string(whole)) != like.plan.entries.front().graph_hash)
    throw UsageError("--like: the artefact was made of another model, or of other weights");
}

}  // namespace tw::driver
