#include "driver/compile_level.h"

#include "driver/artefact/extent_input.h"
#include "driver/like.h"
#include "expr/word_product.h"
#include "graph/repeat.h"
#include "ops/list.h"
#include "support/join.h"
#include "transform/passes.h"

namespace tw::driver {
namespace {

// "8x3x224x224"; of dims that may be smaller the range: "1..8x3x224x224".
std::string shape_of(const graph::Graph& graph, size_t input, const std::vector<format::Extent>& extents) {
  std::string text;
  const Shape& shape = graph.value(graph.inputs[input]).type.shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    text += d == 0 ? "" : "x";
    for (const format::Extent& extent : extents) {
      for (const format::ExtentDim& row : extent.inputs) {
        const bool is_it = row.tensor == static_cast<int64_t>(input) && row.dim == static_cast<int64_t>(d);
        if (is_it) text += fmt::format("{}..", extent.least * row.times);
      }
    }
    text += fmt::format("{}", shape[d]);
  }
  return text;
}

// "main", or the function, and with several of it the shapes that it is for: "x:8x3x224x224".
std::string entry_name(const FunctionGraph& source, const std::vector<FunctionGraph>& all) {
  std::string name = source.function;
  if (std::ranges::count(all, source.function, &FunctionGraph::function) == 1) return name.empty() ? "main" : name;
  for (size_t i = 0; i < source.graph.inputs.size(); ++i) {
    const std::string& input = source.graph.value(source.graph.inputs[i]).name;
    if (index_of(source.extents, input, [](const format::Extent& e) { return input_of(e); }) >= 0) continue;
    name += fmt::format("{}{}:{}", name.empty() ? "" : " ", input, shape_of(source.graph, i, source.extents));
  }
  return name;
}

// Null where nothing is to be measured or looked up.
std::unique_ptr<Tuner> make_tuner(const CompileOptions& options, std::vector<std::string>& warnings) {
  if (!options.plan_text.empty() || !is_measured(options)) return nullptr;
  TunerOptions tuning = options.tuning;
  if (!tuning.notice) tuning.notice = [&warnings](const std::string& text) { warnings.push_back(text); };
  return std::make_unique<Tuner>(std::move(tuning));
}

class LevelCompiler {
 public:
  LevelCompiler(const LevelInput& in, Dumper& dumper, Compiled& out)
      : in_(in),
        dumper_(dumper),
        out_(out),
        ops_(ops::all_ops()),
        tuner_(make_tuner(in.options, out.warnings)),
        planner_(in.target, tuner_.get(), in.options.tuning.explore, usable_libraries(in.options, in.target.info),
                 in.options.precision),
        cubins_(in.options.cubins) {}

  std::optional<LevelCode> run() {
    code_.target = in_.target.info.name;
    code_.entries.resize(in_.sources.size());
    check_names();
    for (const size_t e : largest_first()) {
      std::optional<Dumper> own;
      if (in_.sources.size() > 1) own = dumper_.inside(fmt::format("entry-{}", e));
      if (!add_entry(e, own ? *own : dumper_)) return std::nullopt;
    }
    generate_code();
    dump_code();
    code_.kernels = programs_.kernels();
    if (tuner_ != nullptr) out_.profiling += tuner_->profiling();
    out_.complete = out_.complete && (tuner_ == nullptr || tuner_->complete());
    return std::move(code_);
  }

 private:
  // False when options.stop_after ended the passes before.
  bool add_entry(size_t e, Dumper& dumper) {
    const std::string name = entry_name(in_.sources[e], in_.sources);
    const bool is_shared = in_.options.packing == Packing::kShared;
    const EntryContext context = {in_.options,
                                  ops_,
                                  in_.target,
                                  planner_,
                                  programs_,
                                  cubins_,
                                  out_.times,
                                  out_.warnings,
                                  in_.states,
                                  is_shared ? &constants_ : nullptr,
                                  nearest(in_.sources[e].function),
                                  of_first_function(e)};
    std::optional<EntryCode> entry =
        compile_entry(context, name, in_.sources[e].graph, in_.replay.empty() ? nullptr : &in_.replay[e], dumper);
    if (!entry) return false;
    entry->function = in_.sources[e].function;
    entry->extents = in_.sources[e].extents;
    place(entry->plan, machine::machine_line(in_.target.info));
    say_what_is_rounded(*entry);
    add_padding(*entry);
    code_.entries[e] = std::move(*entry);
    nearest_[in_.sources[e].function] = &code_.entries[e].plan;
    return true;
  }

  // Functions have entries for the same shapes, in one order.
  const plan::EntryPlan* of_first_function(size_t e) const {
    const auto first = std::ranges::find(in_.sources, in_.sources[e].function, &FunctionGraph::function);
    if (first == in_.sources.begin()) return nullptr;
    const plan::EntryPlan& plan = code_.entries[e - static_cast<size_t>(first - in_.sources.begin())].plan;
    return plan.name.empty() ? nullptr : &plan;
  }

  // The plan that an entry of the function follows: of the one before it, or of another artefact.
  const plan::EntryPlan* nearest(const std::string& function) const {
    const auto found = nearest_.find(function);
    if (found != nearest_.end()) return found->second;
    return in_.options.like == nullptr ? nullptr : in_.options.like->nearest(in_.target.info.name);
  }

  // And the bodies of its loops.
  void place(plan::EntryPlan& plan, const std::string& machine) const {
    plan.target = code_.target;
    plan.machine = machine;
    for (plan::EntryPlan& body : plan.bodies) place(body, machine);
  }

  // Of each function, all of the first one before those of the next: what is compiled first decides how states and
  // weights are stored for the others.
  std::vector<size_t> largest_first() const {
    const auto elements = [&](size_t e) {
      int64_t sum = 0;
      for (const graph::ValueId id : in_.sources[e].graph.inputs) sum += in_.sources[e].graph.value(id).type.elements();
      return sum;
    };
    std::vector<size_t> order = sequence<size_t>(in_.sources.size());
    for (auto first = order.begin(); first != order.end();) {
      const auto last = std::find_if(first, order.end(),
                                     [&](size_t e) { return in_.sources[e].function != in_.sources[*first].function; });
      std::stable_sort(first, last, [&](size_t a, size_t b) { return elements(a) > elements(b); });
      first = last;
    }
    return order;
  }

  void check_names() const {
    std::set<std::string> names;
    for (const FunctionGraph& source : in_.sources) {
      const std::string name = entry_name(source, in_.sources);
      if (!names.insert(name).second) throw UsageError("the shapes '{}' are given twice", name);
    }
  }

  // What is f32 in the model and multiplied with fewer digits; Winograd convolutions.
  void say_what_is_rounded(const EntryCode& entry) {
    const Rounded rounded = count_rounded(entry.graph);
    out_.winograd_groups += rounded.winograd;
    if (in_.options.precision != Precision::kFast) return;
    const auto say = [&](int64_t count, std::string_view what, std::string_view how) {
      if (count == 0) return;
      out_.warnings.push_back(fmt::format("--precision fast: '{}' for {}: {} {}{} {}", entry.plan.name, code_.target,
                                          count, what, count == 1 ? "" : "s", how));
    };
    say(rounded.to_bf16, "activation", "rounded to bf16, with the weights beside them");
    say(rounded.to_tf32, "product", "of operands rounded to tf32");
  }

  void add_padding(const EntryCode& entry) {
    for (size_t g = 0; g < entry.graph.nodes.size(); ++g) {
      const plan::GroupPlan& plan = entry.plan.groups[g];
      const double us = plan.microseconds > 0 ? plan.microseconds : plan.predicted_us;
      const bool makes_room = transform::makes_room(entry.graph.nodes[g]);
      out_.padding.all_us += us;
      if (makes_room) ++out_.padding.kernels, out_.padding.us += us;
    }
    for (const EntryCode& body : entry.bodies) add_padding(body);
  }

  void progress(int64_t done, int64_t total) const {
    if (in_.options.progress) in_.options.progress("code", done, total);
  }

  void generate_code() {
    const auto count = static_cast<int64_t>(programs_.programs().size());
    const auto start = std::chrono::steady_clock::now();
    code_.generated = generate_missing();
    const auto elapsed = std::chrono::steady_clock::now() - start;
    out_.times.push_back({"code", code_.target, std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count()});
    progress(count, count);
  }

  void dump_code() {
    if (!dumper_.enabled()) return;
    for (size_t p = 0; p < programs_.programs().size(); ++p) {
      const CodeText code = code_text({programs_.programs()[p], programs_.group(p)}, in_.target.info);
      dumper_.write(fmt::format("code-{:03}", p), code.language, code.text);
    }
  }

  // Machine code of all programs; what measuring has made already is taken from there.
  Generated generate_missing() {
    std::vector<CodeTask> missing;
    std::vector<ProgramCode> all(programs_.programs().size());
    std::vector<size_t> places;
    for (size_t p = 0; p < all.size(); ++p) {
      const ProgramCode* known =
          tuner_ == nullptr ? nullptr : tuner_->find_code(programs_.programs()[p], programs_.group(p));
      if (known != nullptr) all[p] = *known;
      if (known != nullptr) continue;
      missing.push_back({programs_.programs()[p], programs_.group(p)});
      places.push_back(p);
    }
    Generated out = generate_replayed(missing);
    for (size_t m = 0; m < missing.size(); ++m) all[places[m]] = std::move(out.programs[m]);
    out.programs = std::move(all);
    return out;
  }

  // What lowers may still be no code: of a plan that a user changed that is no defect of ours.
  Generated generate_replayed(const std::vector<CodeTask>& tasks) try {
    const auto known = static_cast<int64_t>(programs_.programs().size() - tasks.size());
    const auto report = [&](int64_t done) { progress(known + done, known + std::ssize(tasks)); };
    return generate(tasks, in_.target.info, {in_.options.threads, cubins_, false, nullptr, report});
  } catch (const InternalError& error) {
    if (in_.replay.empty()) throw;
    throw UsageError("--plan does not fit: {}", error.what());
  }

  const LevelInput& in_;
  Dumper& dumper_;
  Compiled& out_;
  graph::OpTable ops_;
  std::unique_ptr<Tuner> tuner_;  // null: nothing is measured
  Planner planner_;
  ProgramSet programs_;
  Cubins cubins_;
  StoredConstants constants_;
  std::map<std::string, const plan::EntryPlan*> nearest_;  // by function: the entry compiled last
  LevelCode code_;
};

}  // namespace

Rounded count_rounded(const graph::Graph& groups) {
  Rounded rounded;
  for (const graph::Node& group : groups.nodes) {
    if (const graph::Node* loop = graph::loop_of(group)) rounded += count_rounded(*loop->body);
    rounded.winograd +=
        std::ranges::any_of(group.body->nodes, [](const graph::Node& n) { return n.op == "winograd_conv"; });
    for (const graph::Node& node : group.body->nodes) {
      const bool packs = node.op == "pack_words" && node.string_attr("words") == to_string(WordFormat::kBf16);
      if (packs && group.body->value(node.inputs[0]).type.type == DataType::f32()) ++rounded.to_bf16;
      if (node.has_attr("operands")) ++rounded.to_tf32;
    }
  }
  return rounded;
}

std::optional<LevelCode> compile_level(const LevelInput& in, Dumper& dumper, Compiled& out) {
  return LevelCompiler(in, dumper, out).run();
}

}  // namespace tw::driver
