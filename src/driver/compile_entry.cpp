#include "driver/compile_entry.h"

#include <algorithm>
#include <set>

#include "core/target_features.h"
#include "support/error.h"
#include "support/hash.h"
#include "transform/pass.h"
#include "transform/storage_order.h"

namespace tw::driver {
namespace {

using graph::ValueId;

std::map<ValueId, ValueId> find_aliases(const graph::Graph& graph) {
  std::map<ValueId, ValueId> aliases;
  std::set<ValueId> leaving;  // storages that hold a graph output already
  const auto root = [&](ValueId id) {
    while (aliases.count(id) != 0) id = aliases[id];
    return id;
  };
  for (const ValueId id : graph.outputs) leaving.insert(id);
  for (const graph::Node& node : graph.nodes) {
    if (!transform::is_view(graph, node)) continue;
    const ValueId out = node.outputs[0];
    const ValueId in = root(node.inputs[0]);
    const bool fixed = graph.producer(in) < 0;
    if (graph.is_output(out) && (fixed || !leaving.insert(in).second)) continue;
    aliases[out] = node.inputs[0];
  }
  return aliases;
}

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
    out_.graph =
        transform::transform(source, {context_.ops, context_.target.info, options().precision, options().dtype}, run);
  }

  GroupOptions group_options(size_t group) {
    GroupOptions out;
    const TargetInfo& target = context_.target.info;
    out.lower.lower.vector_bytes = target.vector_bytes;
    out.lower.lower.has =
        target.kind == DeviceKind::kCpu
            ? Instructions{has_feature(target, "fma"), has_feature(target, "sse4.1")}
            : Instructions{.halves = true, .approximations = options().precision != Precision::kStrict};
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
    std::vector<GroupTe> te(count);
    for (size_t i = 0; i < count; ++i) {
      if (!is_view(i)) te[i] = build_te(inputs(i));
      if (!is_view(i) && replay == nullptr) context_.planner.add(out_.graph.nodes[i].name, te[i]);
    }
    if (replay == nullptr) decide();
    for (size_t i = 0; i < count; ++i) {
      build_one(i, te[i], replay == nullptr ? nullptr : &replay->groups[i]);
      progress("lower", static_cast<int64_t>(i + 1), static_cast<int64_t>(count));
    }
  }

  bool is_view(size_t i) const { return out_.aliases.count(out_.graph.nodes[i].outputs[0]) != 0; }

  GroupInputs inputs(size_t i) const { return {out_.graph, out_.graph.nodes[i], context_.ops, context_.target}; }

  void decide() {
    const GroupOptions group = group_options(0);
    double constants = 0;
    for (const graph::Value& v : out_.graph.values)
      constants += v.is_constant() ? static_cast<double>(v.type.bytes()) : 0;
    TuneContext tune{context_.target.info,
                     group,
                     {options().threads, context_.cubins},
                     warmth_of_weights(constants, context_.target.info),
                     {}};
    tune.progress = [this](int64_t done, int64_t total) { progress("measure", done, total); };
    context_.planner.decide(tune);
  }

  void build_one(size_t i, const GroupTe& te, const plan::GroupPlan* replay) {
    const std::string& name = out_.graph.nodes[i].name;
    GroupCode code;
    int program = -1;
    if (is_view(i)) {
      code.plan = {name, std::string(plan::kViewFamily), {}, {}, 0, {}, 0};
    } else {
      GroupOptions options = group_options(i);
      options.origin = replay != nullptr ? PlanOrigin::kUser : PlanOrigin::kOurs;
      code = build_group(inputs(i), te, replay != nullptr ? *replay : context_.planner.plan(name, te), options);
      program = context_.programs.add(code.loops, name);
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

int ProgramSet::add(const loop::Program& program, const std::string& group) {
  const auto [found, fresh] = index_.try_emplace(loop::to_string(program), static_cast<int>(programs_.size()));
  if (fresh) programs_.push_back(program);
  if (fresh) groups_.push_back(group);
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
