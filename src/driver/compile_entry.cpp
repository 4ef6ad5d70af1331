#include "driver/compile_entry.h"

#include "driver/entry_passes.h"
#include "driver/entry_reasons.h"
#include "driver/layouts/layout_choice.h"
#include "driver/replay.h"
#include "support/hash.h"
#include "transform/loops/unroll.h"

namespace tw::driver {
namespace {

class EntryCompiler {
 public:
  EntryCompiler(const EntryContext& context, Dumper& dumper) : context_(context), dumper_(dumper) {}

  std::optional<EntryCode> run(const std::string& name, const graph::Graph& source, const plan::EntryPlan* replay) {
    out_.plan.name = name;
    out_.plan.graph_hash = content_hash(graph::to_string(source));
    states_ = states_in(source, options().states);
    replay_ = replay;
    if (replay != nullptr) {
      follow(replay->passes);
      layouts_ = replay->layouts;
      out_.plan.between = replay->between;
      out_.plan.layout_times = replay->layout_times;
    }
    if (replay == nullptr && follows())
      std::ranges::copy_if(context_.first_function->passes, std::back_inserter(out_.plan.passes),
                           &plan::PassVariant::is_chosen);
    for (const auto& [state, layout] : context_.states) layouts_.values[state] = layout;
    transform(source);
    if (stopped_) return std::nullopt;
    if (replay == nullptr) follows() ? plan_groups() : decide(source);
    if (replay == nullptr && options().layouts == LayoutUse::kMeasured) decide_layouts(source);
    build_groups();
    keep_state_layouts();
    keep_constants();
    say_of_kernels(groups_.graph, out_.groups, out_.plan.reasons);
    out_.graph = std::move(groups_.graph);
    out_.aliases = std::move(groups_.aliases);
    return std::move(out_);
  }

 private:
  void follow(const std::vector<plan::PassVariant>& passes) {
    for (const plan::PassVariant& chosen : passes) {
      const std::span variants = transform::find_pass(chosen.pass).variants;
      if (std::ranges::find(variants, chosen.variant) == variants.end())
        throw UsageError("--plan: graph pass '{}' has no variant '{}'", chosen.pass, chosen.variant);
    }
    out_.plan.passes = passes;
  }

  // An autotuned pass, and the graph before and after it.
  struct Change {
    const transform::GraphPass* pass;
    graph::Graph before, after;
  };

  const CompileOptions& options() const { return context_.options; }
  // Another function of the same nodes and shapes would measure the same once more.
  bool follows() const { return context_.first_function != nullptr; }

  void progress(std::string_view phase, int64_t done, int64_t total) const {
    if (options().progress) options().progress(phase, done, total);
  }

  transform::RunOptions pass_options() const { return driver::pass_options(options(), out_.plan.passes); }

  transform::TransformContext transform_context() const {
    transform::TransformContext context =
        driver::transform_context(context_.ops, context_.target.info, options(), out_.plan.passes);
    context.states = states_;
    context.layouts = &layouts_;
    context.between = &out_.plan.between;
    return context;
  }

  void keep_state_layouts() const {
    for (const transform::StateNames& state : states_) {
      const Layout& layout = groups_.graph.value(groups_.graph.find_value(state.before)).layout;
      const Layout& kept = context_.states.try_emplace(state.before, layout).first->second;
      TW_CHECK(kept == layout, "the state '{}' is stored in two ways", state.before);
    }
  }

  EntryGroups groups_of(const graph::Graph& graph, const transform::RunOptions& run,
                        transform::ReasonLog* log = nullptr, ValueLayouts* chosen = nullptr) const {
    transform::TransformContext context = transform_context();
    context.log = log;
    context.chosen = chosen;
    graph::Graph groups = transform::transform(graph, context, run);
    if (stopped_) return {};
    return entry_groups(std::move(groups), context_.ops, context_.target, states_, options().watch.get());
  }

  void transform(const graph::Graph& source) {
    transform::RunOptions run = pass_options();
    int64_t done = 0;
    const auto total = static_cast<int64_t>(transform::pipeline().size());
    run.dump = [&](std::string_view pass, const graph::Graph& g) {
      if (dumper_.enabled()) dumper_.write("graph", pass, graph::to_string(g));
      stopped_ = stopped_ || pass == options().stop_after;
      if (!transform::forms_groups(pass)) out_.ungrouped = g;
      if (context_.planner.measures() && !follows() && out_.plan.passes.empty()) keep_for_variants(pass, g, run);
      ask_left_out(pass, g);
      progress("transform", done++, total);  // the first call shows the input
    };
    run.time = [&](std::string_view pass, int64_t ns) {
      add_time("graph", std::string(pass), ns);
      check_limits(options().watch.get(), fmt::format("graph pass {}", pass));
    };
    changes_.clear();
    left_out_.clear();
    out_.plan.layouts = {};
    transform::ReasonLog log;
    groups_ = groups_of(source, run, &log, &out_.plan.layouts);
    if (!stopped_) out_.plan.reasons = reasons_of(groups_.graph, log, left_out_);
  }

  // `g` is what `pass` made, and what an autotuned pass may be about to change.
  void keep_for_variants(std::string_view pass, const graph::Graph& g, const transform::RunOptions& run) {
    if (!changes_.empty() && changes_.back().pass->name == pass) changes_.back().after = g;
    const auto passes = transform::pipeline();
    const auto found = std::ranges::find(passes, pass, &transform::GraphPass::name);
    const auto next = std::find_if(found == passes.end() ? passes.begin() : found + 1, passes.end(),
                                   [&](const transform::GraphPass& p) { return !is_switched_off(p, run); });
    if (next != passes.end() && !next->variants.empty()) changes_.push_back({&*next, g, {}});
  }

  // Asks the pass behind `pass` what it would say of `g`, where measuring has left it out.
  void ask_left_out(std::string_view pass, const graph::Graph& g) {
    for (const plan::PassVariant& compare : out_.plan.passes) {
      if (!compare.is_chosen || compare.variant != transform::kOff || !transform::forms_groups(compare.pass)) continue;
      const auto row = std::ranges::find(transform::pipeline(), compare.pass, &transform::GraphPass::name);
      auto before = row - 1;  // some pass of groups is required
      while (is_switched_off(*before, pass_options())) --before;
      if (before->name != pass) continue;
      transform::TransformContext context = transform_context();
      left_out_.push_back({compare, {}});
      context.log = &left_out_.back().log;
      row->run(g, context);
    }
  }

  GroupOptions group_options(size_t group) {
    GroupOptions out;
    out.lower.lower = lowering_for(context_.target.info, options().precision);
    out.lower.disabled = named_in(lower::pipeline(), options().disabled_passes);
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

  void build_groups() {
    const size_t count = groups_.graph.nodes.size();
    Replay found{std::vector<const plan::GroupPlan*>(count), ""};
    if (replay_ != nullptr) {
      found = find_groups(*replay_, groups_, out_.plan.graph_hash);
      for (const std::string& said : {found.missing, find_other_layouts(*replay_, out_.plan.layouts, groups_.graph)})
        if (!said.empty()) context_.warnings.push_back("--plan: " + said);
      plan_groups(found.plans);
    }
    for (size_t i = 0; i < count; ++i) {
      check_limits(options().watch.get(), "lowering groups", static_cast<int64_t>(i), static_cast<int64_t>(count));
      build_one(i, found.plans[i]);
      progress("lower", static_cast<int64_t>(i + 1), static_cast<int64_t>(count));
    }
  }

  // Plans all groups, and those of other variants of autotuned passes; once more where some of these are faster.
  void decide(const graph::Graph& source) {
    std::vector<VariantComparison> comparisons;
    for (const Change& change : changes_) {
      for (const std::string_view variant : change.pass->variants) {
        transform::TransformContext context = transform_context();
        context.variant = variant;
        const graph::Graph other =
            variant == transform::kOff ? change.before : change.pass->run(change.before, context);
        if (!is_alike(other, change.after)) compare(change, variant, other, comparisons);
      }
    }
    plan_groups();
    std::vector<std::set<std::string>> replaced;
    for (const VariantComparison& comparison : comparisons) {
      const std::optional<plan::PassVariant> times = comparison.times(context_.planner);
      if (!times) continue;
      out_.plan.passes.push_back(*times);
      replaced.push_back(comparison.replaced());
    }
    choose_variants(out_.plan.passes, replaced);
    if (std::ranges::none_of(out_.plan.passes, &plan::PassVariant::is_chosen)) return;
    transform(source);
    plan_groups();
  }

  // Measures the groups in all layouts of the values between them, and stores these as is best for all together.
  void decide_layouts(const graph::Graph& source) {
    if (!context_.planner.measures()) return;
    const LayoutTask task{groups_, context_.ops, context_.target, states_};
    LayoutChoice choice = choose_layouts(task, context_.planner, [this] { decide_added(); });
    if (!choice.declined.empty())
      context_.warnings.push_back(
          fmt::format("layouts of '{}' stay as predicted: {}", out_.plan.name, choice.declined));
    out_.plan.between = std::move(choice.between);
    out_.plan.layout_times = std::move(choice.times);
    if (out_.plan.between == ValueLayouts()) return;
    transform(source);
    plan_groups();
  }

  // `other` is what another variant of the pass makes.
  void compare(const Change& change, std::string_view variant, const graph::Graph& other,
               std::vector<VariantComparison>& comparisons) {
    transform::RunOptions run = pass_options();
    run.start_after = change.pass->name;
    const std::string pass(change.pass->name);
    comparisons.emplace_back(plan::PassVariant{pass, std::string(variant)}, groups_, groups_of(other, run),
                             context_.planner);
  }

  void find_precedents() {
    // Without measuring constructors decide, as they did there where nothing was measured.
    std::map<std::string_view, const plan::GroupPlan*> before;
    for (const plan::EntryPlan* plan : {context_.nearest, context_.first_function}) {
      if (plan == nullptr) continue;
      for (const plan::GroupPlan& group : plan->groups)
        if (context_.planner.measures() || group.microseconds > 0) before.emplace(group.name, &group);
    }
    precedents_.assign(groups_.te.size(), {});
    for (size_t i = 0; i < groups_.te.size(); ++i) {
      if (!groups_.has_code(i)) continue;
      if (context_.constants != nullptr)
        precedents_[i].stored = context_.constants->inputs_of(groups_.te[i], groups_.graph);
      const auto known = before.find(groups_.graph.nodes[i].name);
      if (known == before.end() || context_.planner.has(key_of(i))) continue;
      const plan::GroupPlan& group = *known->second;
      precedents_[i].family = group.family;
      if (group.microseconds > 0 && !group.trace.empty()) precedents_[i].tile = group.trace.front();
    }
  }

  // What tells the group apart from those that are planned in another way.
  std::string key_of(size_t i) const {
    std::string key = groups_.text(i);
    for (const auto& [input, layouts] : precedents_[i].stored) {
      for (const Layout& layout : layouts) key += fmt::format("stored {} {}\n", input, to_string(layout));
    }
    if (!precedents_[i].family.empty()) key += fmt::format("as {} {}\n", precedents_[i].family, precedents_[i].tile);
    return key;
  }

  void keep_constants() {
    if (context_.constants == nullptr) return;
    for (const GroupCode& group : out_.groups) {
      for (const auto& [name, param] : group.params) {
        if (param.kind == Param::Kind::kConstant)
          context_.constants->add(groups_.graph.value(param.value), param.layout);
      }
    }
    context_.constants->share_elements(groups_.graph);
    context_.constants->share_elements(out_.ungrouped);
    context_.constants->end_entry();
  }

  // Those that have no plan yet.
  void plan_groups(const std::vector<const plan::GroupPlan*>& known = {}) {
    const auto count = static_cast<int64_t>(groups_.te.size());
    find_precedents();
    for (size_t i = 0; i < groups_.te.size(); ++i) {
      check_limits(options().watch.get(), "planning groups", static_cast<int64_t>(i), count);
      const bool is_known = !known.empty() && known[i] != nullptr;
      if (!groups_.has_code(i) || is_known) continue;
      context_.planner.add(groups_.graph.nodes[i].name, groups_.te[groups_.first[i]], key_of(i), precedents_[i]);
    }
    decide_added();
  }

  void decide_added() {
    const GroupOptions group = group_options(0);
    double kept = 0;
    for (const graph::Value& v : groups_.graph.values) kept += v.is_kept() ? static_cast<double>(v.type.bytes()) : 0;
    TuneContext tune{context_.target.info,
                     group,
                     {options().threads, context_.cubins},
                     cache_state_of_weights(kept, context_.target.info),
                     {}};
    tune.progress = [this](int64_t done, int64_t total) { progress("measure", done, total); };
    const WorkWatch::Pause pause(options().watch.get());  // measuring has a budget of its own
    context_.planner.decide(tune);
  }

  void build_one(size_t i, const plan::GroupPlan* replay) {
    const graph::Node& node = groups_.graph.nodes[i];
    GroupCode code = {node.name, {}};
    if (groups_.is_loop(i)) {
      add_body(i, *graph::loop_of(node));
    } else if (groups_.is_view(i)) {
      out_.plan.groups.push_back({node.name, std::string(plan::kViewFamily)});
      out_.program_of_group.push_back(-1);
    } else {
      plan::GroupPlan plan = replay != nullptr ? *replay : context_.planner.plan_of(node.name, key_of(i));
      plan.name = node.name;
      plan.content = content_of(groups_.text(i));
      const ProgramSet::Lowered& lowered = lower(i, plan, replay != nullptr ? PlanOrigin::kUser : PlanOrigin::kOurs);
      code.lowered = lowered.group;
      code.params = describe_params({groups_.graph, node, context_.ops, context_.target}, groups_.te[i],
                                    *lowered.group.loops, plan.layouts);
      out_.plan.groups.push_back(std::move(plan));
      out_.program_of_group.push_back(lowered.program);
    }
    out_.groups.push_back(std::move(code));
  }

  // The body of a loop is an entry within this one.
  void add_body(size_t i, const graph::Node& loop) {
    const std::string name = plan::body_name(out_.plan, graph::body_prefix(groups_.graph, groups_.graph.nodes[i]));
    const plan::EntryPlan* replay = replay_ == nullptr ? nullptr : plan::find_body(*replay_, name);
    Dumper inside = dumper_.inside(fmt::format("loop-{}", out_.bodies.size()));
    std::optional<EntryCode> body =
        EntryCompiler(context_, inside).run(name, transform::placeable_body(loop, context_.ops), replay);
    TW_CHECK(body, "the passes of '{}' ended early", name);
    body->plan.target = context_.target.info.name;
    out_.plan.groups.push_back({groups_.graph.nodes[i].name, std::string(plan::kLoopFamily)});
    out_.program_of_group.push_back(-1);
    groups_.graph.nodes[i].body = graph::with_loop_body(*groups_.graph.nodes[i].body, body->graph);
    out_.plan.bodies.push_back(body->plan);
    out_.bodies.push_back(std::move(*body));
  }

  // Equal maths under equal plans, written to equal places, are lowered once, unless each group is to be dumped.
  const ProgramSet::Lowered& lower(size_t i, const plan::GroupPlan& plan, PlanOrigin origin) {
    const std::vector<InPlaceTe>& in_place = groups_.te[i].in_place;
    std::string key = key_of(i);
    for (const InPlaceTe& state : in_place) key += "in place " + text_of(state);
    if (origin == PlanOrigin::kUser) key += "plan " + schedule::to_string(plan.schedule) + plan::layouts_text(plan);
    if (const ProgramSet::Lowered* known = context_.programs.find(key); known != nullptr && !dumper_.enabled())
      return *known;
    GroupOptions options = group_options(i);
    options.origin = origin;
    return context_.programs.add(key, lower_planned(groups_.program(i), plan, options, in_place), plan.name);
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
  std::vector<transform::StateNames> states_;
  const plan::EntryPlan* replay_ = nullptr;
  ValueLayouts layouts_;  // that hold: of the plan that is replayed, and of states that other entries have, too
  EntryGroups groups_;
  std::vector<Precedent> precedents_;  // of each group
  std::vector<Change> changes_;
  std::vector<LeftOut> left_out_;
  bool stopped_ = false;
};

}  // namespace

const ProgramSet::Lowered* ProgramSet::find(const std::string& key) const {
  const auto found = lowered_.find(key);
  return found == lowered_.end() ? nullptr : &found->second;
}

const ProgramSet::Lowered& ProgramSet::add(const std::string& key, LoweredGroup group, const std::string& name) {
  const auto [found, fresh] = index_.try_emplace(loop::to_string(*group.loops), static_cast<int>(programs_.size()));
  if (fresh) programs_.push_back(*group.loops);
  if (fresh) groups_.push_back(name);
  return lowered_[key] = {std::move(group), found->second};
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
