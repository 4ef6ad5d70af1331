#include "driver/compile.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "driver/assemble.h"
#include "driver/compile_entry.h"
#include "driver/generate.h"
#include "ops/list.h"
#include "support/error.h"
#include "support/hash.h"
#include "transform/pass.h"

namespace tw::driver {
namespace {

constexpr std::string_view kProducer = "tilewright 0.1.0";

// "main", or with several entries the shapes that it is for: "x:8x3x224x224".
std::string entry_name(const graph::Graph& source, size_t entries) {
  if (entries == 1) return "main";
  std::string name;
  for (const graph::ValueId id : source.inputs) {
    const graph::Value& value = source.value(id);
    name += fmt::format("{}{}:{}", name.empty() ? "" : " ", value.name, fmt::join(value.type.shape, "x"));
  }
  return name;
}

// Null where nothing is to be measured or looked up.
std::unique_ptr<Tuner> make_tuner(const CompileOptions& options, std::vector<std::string>& warnings) {
  const bool decides = options.plan_text.empty() && !(options.tuning.worker.empty() && options.tuning.database.empty());
  if (!decides) return nullptr;
  TunerOptions tuning = options.tuning;
  if (!tuning.notice) tuning.notice = [&warnings](const std::string& text) { warnings.push_back(text); };
  return std::make_unique<Tuner>(std::move(tuning));
}

class Compiler {
 public:
  explicit Compiler(const CompileOptions& options)
      : options_(options),
        ops_(ops::all_ops()),
        target_(hal::resolve_target(options.target, options.hal)),
        dumper_(options.dump_directory),
        tuner_(make_tuner(options, notices_)),
        planner_(target_, tuner_.get(), options.tuning.explore) {
    check_pass_names();
    if (!options_.plan_text.empty()) read_plan();
  }

  Compiled run(const std::vector<const graph::Graph*>& sources) {
    check_replay(sources.size());
    for (size_t e = 0; e < sources.size(); ++e) {
      const std::string name = entry_name(*sources[e], sources.size());
      check_new(name);
      Dumper dumper = sources.size() == 1 ? dumper_ : dumper_.inside(fmt::format("entry-{}", e));
      const EntryContext context = {options_, ops_, target_, planner_, programs_, out_.times};
      std::optional<EntryCode> entry =
          compile_entry(context, name, *sources[e], replay_ ? &replay_->entries[e] : nullptr, dumper);
      if (!entry) return std::move(out_);
      entries_.push_back(std::move(*entry));
    }
    generate_code();
    finish();
    return std::move(out_);
  }

 private:
  void progress(std::string_view phase, int64_t done, int64_t total) const {
    if (options_.progress) options_.progress(phase, done, total);
  }

  void check_pass_names() const {
    // Whether the pass of this name may be left out; nothing when the pipeline has no such pass.
    const auto optional = [](const auto& pipeline, const std::string& name) -> std::optional<bool> {
      const auto pass = std::ranges::find(pipeline, name, [](const auto& row) { return row.name; });
      return pass == pipeline.end() ? std::nullopt : std::optional(pass->optional);
    };
    for (const std::string& name : options_.disabled_passes) {
      const std::optional<bool> graph_pass = optional(transform::pipeline(), name);
      const std::optional<bool> pass = graph_pass ? graph_pass : optional(lower::pipeline(), name);
      if (!pass) throw UsageError(fmt::format("--disable-pass: there is no pass '{}'", name));
      if (!*pass) throw UsageError(fmt::format("--disable-pass: pass '{}' is required", name));
    }
  }

  void read_plan() {
    try {
      replay_ = plan::parse_plan(options_.plan_text);
    } catch (const UserError& error) {
      throw UsageError(fmt::format("--plan: {}", error.what()));
    }
  }

  void check_replay(size_t entries) const {
    if (replay_ && replay_->entries.size() != entries) {
      throw UsageError(fmt::format("--plan is for {} combinations of shapes, this compilation for {}",
                                   replay_->entries.size(), entries));
    }
  }

  void check_new(const std::string& name) const {
    if (std::ranges::any_of(entries_, [&](const EntryCode& e) { return e.plan.name == name; }))
      throw UsageError(fmt::format("the shapes '{}' are given twice", name));
  }

  void generate_code() {
    const auto count = static_cast<int64_t>(programs_.programs().size());
    progress("code", 0, count);
    const auto start = std::chrono::steady_clock::now();
    generated_ = generate_missing();
    const auto elapsed = std::chrono::steady_clock::now() - start;
    out_.times.push_back(
        {"code", target_.info.name, std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count()});
    progress("code", count, count);
  }

  // Machine code of all programs; what measuring has made already is taken from there.
  Generated generate_missing() {
    std::vector<loop::Program> missing;
    std::vector<ProgramCode> all(programs_.programs().size());
    std::vector<size_t> places;
    for (size_t p = 0; p < all.size(); ++p) {
      const ProgramCode* known = tuner_ == nullptr ? nullptr : tuner_->find_code(programs_.programs()[p]);
      if (known != nullptr) all[p] = *known;
      if (known != nullptr) continue;
      missing.push_back(programs_.programs()[p]);
      places.push_back(p);
    }
    Generated out = generate(missing, target_.info, options_.threads);
    for (size_t m = 0; m < missing.size(); ++m) all[places[m]] = std::move(out.programs[m]);
    out.programs = std::move(all);
    return out;
  }

  void finish() {
    progress("assemble", 0, 1);
    out_.plan.target = target_.info.name;
    for (const EntryCode& entry : entries_) out_.plan.entries.push_back(entry.plan);
    const std::string plan_text = plan::to_string(out_.plan);
    Assembled made = assemble({target_.info.kind, generated_.programs, entries_});
    made.manifest.producer = kProducer;
    made.manifest.target = generated_.target;
    made.manifest.flushes_subnormals = options_.precision != Precision::kStrict;
    made.manifest.graph_hash = entries_.front().plan.graph_hash;
    made.manifest.plan_hash = content_hash(plan_text);
    out_.manifest = std::move(made.manifest);
    out_.sections = std::move(made.sections);
    out_.sections["plan"] = {plan_text.begin(), plan_text.end()};
    out_.kernels = programs_.kernels();
    out_.warnings = std::move(notices_);
    out_.complete = tuner_ == nullptr || tuner_->complete();
    progress("assemble", 1, 1);
  }

  const CompileOptions& options_;
  graph::OpTable ops_;
  targets::Target target_;
  Dumper dumper_;
  std::vector<std::string> notices_;  // of the tuner, when the caller takes none
  std::unique_ptr<Tuner> tuner_;      // null: nothing is measured
  Planner planner_;
  Compiled out_;
  std::optional<plan::Plan> replay_;
  ProgramSet programs_;
  std::vector<EntryCode> entries_;
  Generated generated_;
};

std::vector<format::Section> sections_of(const Compiled& compiled) {
  std::vector<format::Section> sections;
  for (const auto& [name, bytes] : compiled.sections) sections.push_back({name, bytes});
  return sections;
}

}  // namespace

std::vector<frontend::ImportResult> import_file(const std::string& path, const CompileOptions& options) {
  std::vector<frontend::ImportResult> models;
  const auto total = static_cast<int64_t>(options.imports.size());
  for (const frontend::ImportOptions& import : options.imports) {
    if (options.progress) options.progress("import", static_cast<int64_t>(models.size()), total);
    models.push_back(frontend::import_onnx_file(path, ops::all_ops(), import));
  }
  return models;
}

Compiled compile_imported(const std::vector<frontend::ImportResult>& models, const CompileOptions& options) {
  std::vector<const graph::Graph*> sources;
  for (const frontend::ImportResult& model : models) sources.push_back(&model.graph);
  Compiled out = Compiler(options).run(sources);
  out.opset = models.front().opset;
  out.warnings.insert(out.warnings.begin(), models.front().warnings.begin(), models.front().warnings.end());
  out.external_files = models.front().external_files;
  return out;
}

Compiled compile_file(const std::string& path, const CompileOptions& options) {
  return compile_imported(import_file(path, options), options);
}

Compiled compile_graph(const graph::Graph& source, const CompileOptions& options) {
  return Compiler(options).run({&source});
}

std::vector<uint8_t> artefact_bytes(const Compiled& compiled) {
  return format::serialize_artefact(compiled.manifest, sections_of(compiled));
}

void write_artefact(const Compiled& compiled, const std::string& path) {
  format::write_artefact(path, compiled.manifest, sections_of(compiled));
}

}  // namespace tw::driver
