#include "driver/compile.h"

#include <chrono>

#include "driver/assemble.h"
#include "driver/dump.h"
#include "driver/generate.h"
#include "ops/list.h"
#include "support/error.h"
#include "support/hash.h"
#include "transform/pass.h"

namespace tw::driver {
namespace {

constexpr std::string_view kProducer = "tilewright 0.1.0";

class Compiler {
 public:
  explicit Compiler(const CompileOptions& options)
      : options_(options),
        ops_(ops::all_ops()),
        target_(targets::find_target(options.target)),
        dumper_(options.dump_directory) {}

  Compiled run(graph::Graph source) {
    out_.source = std::move(source);
    dumper_.write("graph", "import", graph::to_string(out_.source));
    transform();
    if (!stopped_) build_groups();
    if (!stopped_) generate_code();
    if (!stopped_) finish();
    return std::move(out_);
  }

  const graph::OpTable& ops() const { return ops_; }

 private:
  void progress(std::string_view phase, int64_t done, int64_t total) const {
    if (options_.progress) options_.progress(phase, done, total);
  }

  // Pass names given on the command line belong to the graph pipeline or to the loop pipeline.
  std::vector<std::string> disabled(bool of_graph) const {
    std::vector<std::string> names;
    for (const std::string& name : options_.disabled_passes) {
      bool is_graph = false;
      bool is_loop = false;
      for (const transform::GraphPass& p : transform::pipeline()) is_graph = is_graph || p.name == name;
      for (const lower::LoopPass& p : lower::pipeline()) is_loop = is_loop || p.name == name;
      if (!is_graph && !is_loop) throw UsageError(fmt::format("--disable-pass: there is no pass '{}'", name));
      if (of_graph ? is_graph : is_loop) names.push_back(name);
    }
    return names;
  }

  void transform() {
    transform::RunOptions run;
    run.disabled = disabled(true);
    run.all_optional_off = options_.all_optional_off;
    run.stop_after = options_.stop_after;
    int64_t done = 0;
    const auto total = static_cast<int64_t>(transform::pipeline().size());
    run.dump = [&](std::string_view pass, const graph::Graph& g) {
      if (dumper_.enabled()) dumper_.write("graph", pass, graph::to_string(g));
      stopped_ = stopped_ || pass == options_.stop_after;
      progress("transform", ++done, total);
    };
    run.time = [&](std::string_view pass, int64_t ns) { out_.times.push_back({"graph", std::string(pass), ns}); };
    out_.graph = transform::transform(out_.source, {ops_, target_.info}, run);
  }

  lower::RunOptions lower_options(size_t group) {
    lower::RunOptions run;
    run.lower.vector_bytes = target_.info.vector_bytes;
    run.disabled = disabled(false);
    if (options_.all_optional_off) {
      for (const lower::LoopPass& p : lower::pipeline()) {
        if (p.optional) run.disabled.emplace_back(p.name);
      }
    }
    if (dumper_.enabled()) {
      run.dump = [this, group](std::string_view pass, const loop::Program& p) {
        dumper_.write(fmt::format("loop-{:03}", group), pass, loop::to_string(p));
      };
    }
    run.time = [this](std::string_view pass, int64_t ns) { loop_times_[std::string(pass)] += ns; };
    return run;
  }

  void build_groups() {
    if (!options_.plan_text.empty()) read_plan();
    const size_t count = out_.graph.nodes.size();
    if (!options_.plan_text.empty() && replay_.groups.size() != count) {
      throw UsageError(fmt::format("--plan has {} groups, the model {}: it was made for another model or other options",
                                   replay_.groups.size(), count));
    }
    aliases_ = find_aliases(out_.graph);
    for (size_t i = 0; i < count; ++i) {
      build_one(i);
      progress("lower", static_cast<int64_t>(i + 1), static_cast<int64_t>(count));
    }
    for (const auto& [pass, ns] : loop_times_) out_.times.push_back({"loop", pass, ns});
    out_.kernels = 0;
    for (const loop::Program& p : distinct_) out_.kernels += static_cast<int64_t>(p.kernels.size());
  }

  void read_plan() {
    try {
      replay_ = plan::parse_plan(options_.plan_text);
    } catch (const UserError& error) {
      throw UsageError(fmt::format("--plan: {}", error.what()));
    }
  }

  void build_one(size_t i) {
    const graph::Node& node = out_.graph.nodes[i];
    if (aliases_.count(node.outputs[0]) != 0) {
      groups_.push_back({});
      groups_.back().plan = {node.name, "view", {}, {}, 0, {}};
      program_of_group_.push_back(-1);
      out_.plan.groups.push_back(groups_.back().plan);
      return;
    }
    const GroupInputs in{out_.graph, node, ops_, target_};
    const plan::GroupPlan* replay = options_.plan_text.empty() ? nullptr : &replay_.groups[i];
    groups_.push_back(build_group(in, replay, lower_options(i)));
    const auto [found, fresh] =
        index_.try_emplace(loop::to_string(groups_.back().loops), static_cast<int>(distinct_.size()));
    if (fresh) distinct_.push_back(groups_.back().loops);
    program_of_group_.push_back(found->second);
    out_.plan.groups.push_back(groups_.back().plan);
  }

  void generate_code() {
    progress("code", 0, static_cast<int64_t>(distinct_.size()));
    const auto start = std::chrono::steady_clock::now();
    generated_ = generate(distinct_, target_.info, options_.threads);
    const auto elapsed = std::chrono::steady_clock::now() - start;
    out_.times.push_back(
        {"code", target_.info.name, std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count()});
    progress("code", static_cast<int64_t>(distinct_.size()), static_cast<int64_t>(distinct_.size()));
  }

  void finish() {
    progress("assemble", 0, 1);
    Assembled made = assemble({target_.info.kind, out_.graph, groups_, generated_.programs, program_of_group_, aliases_,
                               options_.reuse_memory});
    out_.plan.target = target_.info.name;
    const std::string graph_text = graph::to_string(out_.source);
    out_.plan.graph_hash = content_hash(graph_text);
    const std::string plan_text = plan::to_string(out_.plan);
    made.manifest.producer = kProducer;
    made.manifest.target = generated_.target;
    double flop = 0;
    for (const GroupCode& g : groups_) flop += g.flop;
    made.manifest.notes = {fmt::format("contraction flop: {:.0f}", flop)};
    made.manifest.graph_hash = out_.plan.graph_hash;
    made.manifest.plan_hash = content_hash(plan_text);
    out_.manifest = std::move(made.manifest);
    out_.sections = std::move(made.sections);
    out_.sections["plan"] = {plan_text.begin(), plan_text.end()};
    out_.sections["graph"] = {graph_text.begin(), graph_text.end()};
    progress("assemble", 1, 1);
  }

  const CompileOptions& options_;
  graph::OpTable ops_;
  targets::Target target_;
  Dumper dumper_;
  Compiled out_;
  bool stopped_ = false;
  plan::Plan replay_;
  std::map<graph::ValueId, graph::ValueId> aliases_;
  std::vector<GroupCode> groups_;
  std::vector<loop::Program> distinct_;
  std::map<std::string, int> index_;  // text of a loop program -> index in distinct_
  std::vector<int> program_of_group_;
  Generated generated_;
  std::map<std::string, int64_t> loop_times_;
};

std::vector<format::Section> sections_of(const Compiled& compiled) {
  std::vector<format::Section> sections;
  for (const auto& [name, bytes] : compiled.sections) sections.push_back({name, bytes});
  return sections;
}

}  // namespace

Compiled compile_graph(graph::Graph source, const CompileOptions& options) {
  return Compiler(options).run(std::move(source));
}

Compiled compile_file(const std::string& path, const CompileOptions& options) {
  if (options.progress) options.progress("import", 0, 1);
  frontend::ImportResult imported = frontend::import_onnx_file(path, ops::all_ops(), options.import);
  Compiled out = compile_graph(std::move(imported.graph), options);
  out.opset = imported.opset;
  out.warnings = std::move(imported.warnings);
  return out;
}

std::vector<uint8_t> artefact_bytes(const Compiled& compiled) {
  return format::serialize_artefact(compiled.manifest, sections_of(compiled));
}

void write_artefact(const Compiled& compiled, const std::string& path) {
  format::write_artefact(path, compiled.manifest, sections_of(compiled));
}

}  // namespace tw::driver
