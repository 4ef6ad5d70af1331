#include "driver/compile.h"

#include <ranges>

#include "driver/artefact/assemble.h"
#include "driver/code/format_type.h"
#include "driver/compile_level.h"
#include "driver/like.h"
#include "driver/other_extents.h"
#include "driver/ranges.h"
#include "driver/states.h"
#include "graph/repeat.h"
#include "ops/list.h"
#include "support/hash.h"
#include "support/join.h"
#include "support/text.h"
#include "transform/pass.h"

namespace tw::driver {
namespace {

constexpr std::string_view kProducer = "tilewright 0.1.0";
constexpr std::string_view kOneShape = "--state: a state has one shape, whatever the shapes of the inputs are";

class Compiler {
 public:
  explicit Compiler(const CompileOptions& options)
      : options_(options), targets_(machine::resolve_targets(options.target, options.machine_model)) {
    settle(options_);
    check_pass_names();
    leave_out_families();
    check_dtype();
    // Time for measuring is divided evenly: each target has groups of its own.
    options_.tuning.budget_seconds /= static_cast<double>(targets_.size());
  }

  Compiled run(std::vector<FunctionGraph> given) {
    models_ = std::move(given);
    check_extents();
    for (FunctionGraph& model : models_) {
      const bool is_first = model.function == models_.front().function;
      model.graph = is_first ? with_states_last(model.graph, options_.states, options_.dtype)
                             : with_its_states_last(model.graph, options_.states, options_.dtype);
    }
    check_states();
    state_layouts_ = layouts_of_stacked(options_.states);
    const std::vector<plan::EntryPlan> replay = read_plan(models_.size());
    const Dumper dumper(options_.dump_directory);
    for (size_t t = 0; t < targets_.size(); ++t) {
      const std::span<const plan::EntryPlan> plans = replay;
      const size_t count = replay.empty() ? 0 : models_.size();
      Dumper inside = targets_.size() == 1 ? dumper : dumper.inside(architecture(targets_[t].info));
      std::optional<LevelCode> level = compile_level(
          {options_, targets_[t], models_, plans.subspan(t * count, count), state_layouts_}, inside, out_);
      if (!level) return std::move(out_);
      levels_.push_back(std::move(*level));
    }
    finish();
    return std::move(out_);
  }

 private:
  void progress(std::string_view phase, int64_t done, int64_t total) const {
    if (options_.progress) options_.progress(phase, done, total);
  }

  void check_dtype() const {
    const DataType d = options_.dtype;
    if (d != DataType::f32() && d != DataType::f16() && d != DataType::bf16())
      throw UsageError("--dtype {}: f32 is compiled as f32, f16 or bf16", to_string(d));
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
      if (!pass) {
        const auto names = joined(mapped(transform::pipeline(), &transform::GraphPass::name),
                                  mapped(lower::pipeline(), &lower::LoopPass::name));
        throw UsageError("--disable-pass {}: there is no such pass{}", name, suggestion(name, names));
      }
      if (!*pass) throw UsageError("--disable-pass: pass '{}' is required", name);
    }
  }

  void check_extents() const {
    for (const FunctionGraph& model : models_) {
      for (const format::Extent& extent : model.extents) {
        for (const format::ExtentDim& row : extent.inputs) {
          const std::string& input = model.graph.value(model.graph.inputs[static_cast<size_t>(row.tensor)]).name;
          if (std::ranges::count(options_.states, input, &StatePair::input) > 0) throw UsageError("{}", kOneShape);
        }
      }
    }
  }

  // All entries keep the same.
  void check_states() const {
    const graph::Graph& first = models_.front().graph;
    for (const FunctionGraph& model : models_) {
      for (const transform::StateNames& state : states_in(model.graph, options_.states)) {
        const auto type = [&](const graph::Graph& graph) { return graph.value(graph.find_value(state.before)).type; };
        if (type(model.graph) != type(first)) throw UsageError("{}", kOneShape);
      }
    }
  }

  // The last owner of a target takes every group: it stays.
  void leave_out_families() {
    for (targets::Target& target : targets_) {
      std::vector<construct::Constructor>& kept =
          families_.emplace_back(target.families.begin(), target.families.end());
      for (const std::string& name : options_.disabled_families) {
        const auto found = std::ranges::find(kept, name, &construct::Constructor::family);
        if (found == kept.end())
          throw UsageError("--disable-family: {} has no family '{}'; it has {}", target.info.name, name,
                           fmt::join(kept | std::views::transform(&construct::Constructor::family), ", "));
        if (name == target.families[target.owners() - 1].family)
          throw UsageError("--disable-family: family '{}' is required: it takes every group", name);
        target.lacks_families |= found->kind == construct::FamilyKind::kOwns;
        kept.erase(found);
      }
      target.families = kept;
    }
  }

  // The plan to replay: one for each target and combination of shapes. Empty: there is none. What the machine
  // parameters of a target decide, those of the plan decide.
  std::vector<plan::EntryPlan> read_plan(size_t combinations) {
    if (options_.plan_text.empty()) return {};
    std::vector<plan::EntryPlan> entries;
    try {
      entries = plan::parse_plan(options_.plan_text).entries;
    } catch (const UserError& error) {
      throw UsageError("--plan: {}", error.what());
    }
    if (entries.size() != combinations * targets_.size()) {
      throw UsageError("--plan has {} entries, this compilation {}: {} combinations of shapes for each of {} targets",
                       entries.size(), combinations * targets_.size(), combinations, targets_.size());
    }
    for (size_t e = 0; e < entries.size(); ++e) {
      const std::string &from = entries[e].target, &to = targets_[e / combinations].info.name;
      if (from != to && (from.starts_with("cuda") || to.starts_with("cuda")))  // CPU levels run what others do
        throw UsageError("--plan is for {}, this compilation for {}", from, to);
    }
    for (size_t t = 0; t < targets_.size(); ++t) use_machine_of(entries[t * combinations], targets_[t].info);
    return entries;
  }

  static void use_machine_of(const plan::EntryPlan& entry, TargetInfo& target) {
    if (entry.machine.empty()) return;
    Result<TargetInfo> machine = machine::with_machine_line(target, entry.machine);
    if (!machine.ok()) throw UsageError("--plan: the line 'machine' of {}: {}", entry.target, machine.reason());
    target = std::move(machine).value();
  }

  void finish() {
    progress("assemble", 0, 1);
    for (const LevelCode& level : levels_) {
      for (const EntryCode& entry : level.entries) out_.plan.entries.push_back(entry.plan);
      out_.kernels += level.kernels;
    }
    const std::string plan_text = plan::to_string(out_.plan);
    std::vector<format::State> states = place_states(models_.front().graph, options_.states, state_layouts_);
    std::vector<uint8_t> initial = initial_values(states, options_.states, state_layouts_, options_.dtype);
    Assembled made = assemble(targets_.front().info.kind, levels_, std::move(states), options_.branches);
    if (!initial.empty()) made.sections["states"] = {initial.begin(), initial.end()};
    describe_source(made);
    made.manifest.producer = kProducer;
    made.manifest.dtype = format_type(options_.dtype);
    made.manifest.flushes_subnormals = options_.precision != Precision::kStrict;
    made.manifest.graph_hash = out_.plan.entries.front().graph_hash;
    made.manifest.plan_hash = content_hash(plan_text);
    out_.manifest = std::move(made.manifest);
    out_.sections = std::move(made.sections);
    out_.sections["plan"] = {plan_text.begin(), plan_text.end()};
    progress("assemble", 1, 1);
  }

  // What the caller knows of the model comes later.
  void describe_source(const Assembled& made) {
    Source& source = out_.source;
    source.options = options_;
    for (const LevelCode& level : levels_) {
      for (const EntryCode& entry : level.entries) {
        SourceEntry& described = source.entries.emplace_back();
        described.layouts = made.layouts[source.entries.size() - 1];
        std::map<std::string, std::string> outlines;
        add_source(entry, "", described, outlines);
        described.outline = joined_outlines(outlines);
      }
    }
  }

  // Names in bodies of loops begin with `prefix`.
  static void add_source(const EntryCode& code, const std::string& prefix, SourceEntry& entry,
                         std::map<std::string, std::string>& outlines) {
    outlines[prefix] = graph::to_outline(code.ungrouped);
    for (const auto& [name, before] : renamed_constants(code.ungrouped, code.graph))
      entry.renamed[prefix + name] = prefix + before;
    size_t loops = 0;
    for (const graph::Node& group : code.graph.nodes) {
      if (graph::loop_of(group) != nullptr)
        add_source(code.bodies.at(loops++), prefix + graph::body_prefix(code.graph, group), entry, outlines);
    }
  }

  CompileOptions options_;
  std::vector<FunctionGraph> models_;  // one for each combination of shapes
  std::vector<targets::Target> targets_;
  std::vector<std::vector<construct::Constructor>> families_;  // of each target
  Compiled out_;
  StateLayouts state_layouts_;
  std::vector<LevelCode> levels_;
};

std::vector<format::Section> sections_of(const Compiled& compiled) {
  return mapped(compiled.sections, [](const auto& section) { return format::Section{section.first, section.second}; });
}

template <typename Import>
std::vector<frontend::ImportResult> import_each(const CompileOptions& options, const Import& import) {
  std::vector<frontend::ImportResult> models;
  const auto total = static_cast<int64_t>(options.imports.size());
  for (const frontend::ImportOptions& one : options.imports) {
    if (options.progress) options.progress("import", static_cast<int64_t>(models.size()), total);
    models.push_back(import(one));
    share_elements(models.front(), models.back());
    check_lengths(models.back(), one, options.states);
    models.back().graph = with_states_last(models.back().graph, options.states, options.dtype);
  }
  if (options.like != nullptr) check_model(*options.like, models.front(), import);
  return models;
}

// Of all combinations.
LeastExtents smallest_of(const CompileOptions& options) {
  LeastExtents smallest;
  for (const LeastExtents& each : options.least) {
    for (const auto& [name, least] : each) {
      int64_t& known = smallest.try_emplace(name, least).first->second;
      known = std::min(known, least);
    }
  }
  return smallest;
}

}  // namespace

std::vector<frontend::ImportResult> import_file(const std::string& path, const CompileOptions& options) {
  return import_each(options, [&](const auto& one) { return import_onnx_file(path, ops::all_ops(), one); });
}

std::vector<frontend::ImportResult> import_bytes(std::span<const std::byte> bytes, const std::string& data_directory,
                                                 const CompileOptions& options) {
  return import_each(options,
                     [&](const auto& one) { return import_onnx_bytes(bytes, data_directory, ops::all_ops(), one); });
}

Compiled compile_imported(const std::vector<frontend::ImportResult>& models, const CompileOptions& options) {
  std::vector<FunctionGraph> graphs;
  std::vector<std::string> warnings = models.front().warnings;
  for (size_t m = 0; m < models.size(); ++m) {
    const frontend::ImportOptions& import = options.imports[std::min(m, options.imports.size() - 1)];
    check_lengths(models[m], import, options.states);
    graphs.push_back(with_ranges(models[m], import, least_of(options, m), smallest_of(options)));
    // A state would be changed by every part.
    for (format::Extent& extent : graphs.back().extents) extent.in_parts = extent.in_parts && options.states.empty();
    if (m == 0) append(warnings, graphs[0].warnings);
  }
  Compiled out = compile_functions(std::move(graphs), options);
  out.opset = models.front().opset;
  out.warnings.insert(out.warnings.begin(), warnings.begin(), warnings.end());
  out.external_files = models.front().external_files;
  if (models.front().skeleton.empty() || out.manifest.entries.empty()) return out;
  const std::string metadata = frontend::metadata_of(std::as_bytes(std::span(models.front().skeleton)));
  out.sections["metadata"] = {metadata.begin(), metadata.end()};
  out.source.skeleton = models.front().skeleton;
  out.source.model = model_hash(models.front());
  out.source.weights = models.front().weights;
  out.source.infinite = models.front().infinite;
  out.sections["source"] = to_bytes(out.source);
  return out;
}

Compiled compile_file(const std::string& path, const CompileOptions& options) {
  return compile_imported(import_file(path, options), options);
}

Compiled compile_graph(const graph::Graph& source, const CompileOptions& options) {
  return compile_functions({{"", source}}, options);
}

Compiled compile_functions(std::vector<FunctionGraph> functions, const CompileOptions& options) {
  return Compiler(options).run(std::move(functions));
}

std::vector<uint8_t> artefact_bytes(const Compiled& compiled) {
  return format::serialize_artefact(compiled.manifest, sections_of(compiled));
}

void write_artefact(const Compiled& compiled, const std::string& path) {
  format::write_artefact(path, compiled.manifest, sections_of(compiled));
}

}  // namespace tw::driver
