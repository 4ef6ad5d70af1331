#include "driver/compile_entry.h"

#include <algorithm>

#include "driver/aliases.h"
#include "support/error.h"
#include "support/hash.h"
#include "transform/pass.h"

namespace tw::driver {
namespace {

class EntryCompiler {
 public:
  EntryCompiler(const EntryContext& context, Dumper& dumper) : context_(context), dumper_(dumper) {}

  std::optional<EntryCode> run(const std::string& name, const graph::Graph& source, const plan::EntryPlan* replay) {
    out_.plan.name = name;
    out_.plan.graph_hash = content_hash(graph::to_string(source));
    transform(source);
    if (stopped_) return std::nullopt;
    build_groups(replay);
    return std::move(out_);
  }

 private:
  const CompileOptions& options() const { return context_.options; }

  void progress(std::string_view phase, int64_t done, int64_t total) const {
    if (options().progress) options().progress(phase, done, total);
  }

  // Pass names given on the command line belong to the graph pipeline or to the loop pipeline.
  template <typename Pass>
  std::vector<std::string> named(std::span<const Pass> passes) const {
    std::vector<std::string> names;
    for (const std::string& name : options().disabled_passes) {
      if (std::ranges::any_of(passes, [&](const Pass& p) { return p.name == name; })) names.push_back(name);
    }
    return names;
  }

  void transform(const graph::Graph& source) {
    transform::RunOptions run;
    run.disabled = named(transform::pipeline());
    run.all_optional_off = options().all_optional_off;
    run.stop_after = options().stop_after;
    int64_t done = 0;
    const auto total = static_cast<int64_t>(transform::pipeline().size());
    run.dump = [&](std::string_view pass, const graph::Graph& g) {
      if (dumper_.enabled()) dumper_.write("graph", pass, graph::to_string(g));
      stopped_ = stopped_ || pass == options().stop_after;
      progress("transform", done++, total);  // the first call shows the input
    };
    run.time = [&](std::string_view pass, int64_t ns) { add_time("graph", std::string(pass), ns); };
    out_.graph = transform::transform(source, {context_.ops, context_.target.info, options().precision}, run);
  }

  GroupOptions group_options(size_t group) {
    GroupOptions out;
    out.lower.lower.vector_bytes = context_.target.info.vector_bytes;
    out.lower.disabled = named(lower::pipeline());
    if (options().all_optional_off) {
      for (const lower::LoopPass& p : lower::pipeline()) {
        if (p.optional) out.lower.disabled.emplace_back(p.name);
      }
    }
    if (dumper_.enabled()) {
      out.dump_te = [this, group](const te::Program& p) {
        dumper_.write(fmt::format("te-{:03}", group), "layouts", te::to_string(p));
      };
      out.lower.dump = [this, group](std::string_view pass, const loop::Program& p) {
        dumper_.write(fmt::format("loop-{:03}", group), pass, loop::to_string(p));
      };
    }
    out.lower.time = [this](std::string_view pass, int64_t ns) { add_time("loop", std::string(pass), ns); };
    return out;
  }

  void build_groups(const plan::EntryPlan* replay) {
    const size_t count = out_.graph.nodes.size();
    if (replay != nullptr && replay->groups.size() != count) {
      throw UsageError(fmt::format("--plan has {} groups, the model {}: it was made for another model or other options",
                                   replay->groups.size(), count));
    }
    out_.aliases = find_aliases(out_.graph);
    for (size_t i = 0; i < count; ++i) {
      build_one(i, replay == nullptr ? nullptr : &replay->groups[i]);
      progress("lower", static_cast<int64_t>(i + 1), static_cast<int64_t>(count));
    }
  }

  void build_one(size_t i, const plan::GroupPlan* replay) {
    const graph::Node& node = out_.graph.nodes[i];
    GroupCode code;
    int program = -1;
    if (out_.aliases.count(node.outputs[0]) != 0) {
      code.plan = {node.name, std::string(plan::kViewFamily), {}, {}, 0, {}};
    } else {
      code = build_group({out_.graph, node, context_.ops, context_.target}, replay, group_options(i));
      program = context_.programs.add(code.loops);
    }
    out_.plan.groups.push_back(code.plan);
    out_.groups.push_back(std::move(code));
    out_.program_of_group.push_back(program);
  }

  // Passes over many groups and entries are one line each.
  void add_time(const std::string& phase, const std::string& pass, int64_t ns) {
    for (PassTime& t : context_.times) {
      if (t.phase != phase || t.pass != pass) continue;
      t.nanoseconds += ns;
      return;
    }
    context_.times.push_back({phase, pass, ns});
  }

  const EntryContext& context_;
  Dumper& dumper_;
  EntryCode out_;
  bool stopped_ = false;
};

}  // namespace

int ProgramSet::add(const loop::Program& program) {
  const auto [found, fresh] = index_.try_emplace(loop::to_string(program), static_cast<int>(programs_.size()));
  if (fresh) programs_.push_back(program);
  return found->second;
}

int64_t ProgramSet::kernels() const {
  int64_t count = 0;
  for (const loop::Program& p : programs_) count += static_cast<int64_t>(p.kernels.size());
  return count;
}

std::optional<EntryCode> compile_entry(const EntryContext& context, const std::string& name, const graph::Graph& source,
                                       const plan::EntryPlan* replay, Dumper& dumper) {
  return EntryCompiler(context, dumper).run(name, source, replay);
}

}  // namespace tw::driver
