// tilewright report MODEL.tw -o report.html: one page that shows why a compiled model is as fast as it is.
#include "artefact/report/report.h"

#include <filesystem>
#include <numeric>

#include "artefact/report/trace.h"
#include "runtime/format/atomic_file.h"
#include "support/error.h"
#include "support/text.h"
#include "tilewright/command.h"
#include "tilewright/explained.h"
#include "tilewright/latency.h"
#include "tilewright/progress.h"
#include "tilewright/report/peer.h"
#include "tilewright/values/inputs.h"
#include "tilewright/verb.h"

namespace tw::cli {
namespace {

using artefact::report::Compared;
using artefact::report::Latency;
using artefact::report::Report;

constexpr int kRounds = 6;  // of artefacts that are compared, one after the other in each

// A session with its times so far.
struct Runner {
  artefact::Session session;
  std::vector<double> times = {};  // ms
  double quiet = 0;                // runs that no other program seems to have disturbed

  void measure(const VerbOptions& options) {
    const Times more = measure_latency(session, options);
    times.insert(times.end(), more.ms.begin(), more.ms.end());
    quiet += more.quiet_share * static_cast<double>(more.ms.size());
  }
};

Runner runner_for(const GlobalOptions& global, const LoadedModel& model, const VerbOptions& options,
                  const std::vector<artefact::Array>& inputs) {
  Runner runner{open_session(global, model, {options.threads, false, options.level, options.inputs.function})};
  runner.session.bind(inputs);
  return runner;
}

Latency latency_of(Runner& runner, const std::string& protocol) {
  std::ranges::sort(runner.times);
  const double sum = std::accumulate(runner.times.begin(), runner.times.end(), 0.0);
  const auto runs = static_cast<double>(runner.times.size());
  return {percentile(runner.times, 10),
          percentile(runner.times, 50),
          sum / runs,
          static_cast<int64_t>(runner.times.size()),
          protocol,
          runner.quiet / runs};
}

std::vector<artefact::Array> seeded_inputs(const GlobalOptions& global, const LoadedModel& model,
                                           const VerbOptions& options) {
  const artefact::Session session =
      open_session(global, model, {options.threads, false, options.level, options.inputs.function});
  return gather_inputs({{}, "seed=0", options.inputs.entry}, session);
}

std::vector<artefact::report::OutputDifference> differences(Runner& now, Runner& before,
                                                            const std::vector<artefact::Array>& inputs) {
  const std::vector<artefact::NamedType> names = now.session.outputs(now.session.bound_entry());
  const std::vector<artefact::Array> a = now.session.run(inputs), b = before.session.run(inputs);
  std::vector<artefact::report::OutputDifference> all;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    all.push_back(artefact::report::difference_of(names[i].name, a[i], b[i]));
  return all;
}

LoadedModel load_compared(const GlobalOptions& global, const VerbOptions& options) {
  if (!options.compared.ends_with(".tw"))
    throw UsageError("--compare '{}': expected an artefact, whose name ends in .tw", options.compared);
  VerbOptions other;
  other.model = options.compared;
  return load_model(global, other);
}

bool takes(const artefact::Session& session, const std::vector<artefact::Array>& inputs) {
  try {
    session.find_entry(inputs);
    return true;
  } catch (const artefact::RuntimeFailure&) {
    return false;
  }
}

// Both artefacts of one model in turns, so that what else the machine does meets them alike.
void measure_both(Report& report, Compared& compared, Runner& now, Runner& before, const VerbOptions& options) {
  VerbOptions round = options;
  round.duration_s /= kRounds;
  round.warm_up_ms /= kRounds;
  for (int r = 0; r < kRounds; ++r) now.measure(round), before.measure(round);
  const std::string protocol =
      fmt::format("{} rounds, both artefacts in each, {:g} s of each in all, {:g} ms warm-up, {}", kRounds,
                  options.duration_s, options.warm_up_ms, count_text(report.threads, "thread"));
  report.latency = latency_of(now, protocol);
  compared.latency = latency_of(before, protocol);
}

void compare(const GlobalOptions& global, Report& report, const LoadedModel& model, const VerbOptions& options) {
  const LoadedModel other = load_compared(global, options);
  const ExplainedModel about = examine(global, other, options);
  const Reason not_run = declined("the report was made with --no-run");
  Compared compared{options.compared, artefact::explain_entry(other.artefact, about.run, about.target), not_run,
                    not_run};
  if (!options.no_run) {
    const std::vector<artefact::Array> inputs = seeded_inputs(global, model, options);
    Runner now = runner_for(global, model, options, inputs);
    const artefact::Session probe =
        open_session(global, other, {options.threads, false, options.level, options.inputs.function});
    if (!takes(probe, inputs))
      throw UsageError("--compare '{}': it takes inputs of other names, types or shapes than '{}'", options.compared,
                       options.model);
    Runner before = runner_for(global, other, options, inputs);
    measure_both(report, compared, now, before, options);
    compared.outputs = differences(now, before, inputs);
  }
  report.compared = std::move(compared);
}

// Latency alone, or around a run of the other engine.
void measure(const GlobalOptions& global, Report& report, const LoadedModel& model, const VerbOptions& options) {
  Runner runner = runner_for(global, model, options, seeded_inputs(global, model, options));
  runner.measure(options);
  const bool beside_peer = options.peer == "onnxruntime";
  if (beside_peer) {
    report.peer = measure_peer(options, runner.session.inputs(runner.session.bound_entry()), report.threads);
    runner.measure(options);
  }
  report.latency =
      latency_of(runner, fmt::format("{}{:g} ms warm-up, then {:g} s and at least {} runs, {}, on seeded inputs",
                                     beside_peer ? "before and after the other engine: " : "", options.warm_up_ms,
                                     options.duration_s, options.iterations, count_text(report.threads, "thread")));
}

void verify(const GlobalOptions& global, Report& report, const LoadedModel& model, const VerbOptions& options,
            int entry) {
  const std::vector<artefact::Array> inputs = seeded_inputs(global, model, options);
  const graph::Graph* source = model.sources.empty() ? nullptr : &model.sources[static_cast<size_t>(entry)].graph;
  Progress progress(global);
  report.verified = artefact::verify_artefact(model.artefact, source, inputs, std::ref(progress),
                                              {options.level, options.inputs.function});
  progress.clear();
}

// Why sections are empty, unless something fills them.
void give_reasons(Report& report, const VerbOptions& options, const LoadedModel& model) {
  const Reason not_run = declined("the report was made with --no-run");
  report.latency = not_run;
  report.verified = not_run;
  if (!options.no_run) report.verified = declined("the report was made with --no-verify");
  report.compared = declined("give another artefact of the model: --compare old.tw");
  report.peer = declined("give another engine: --peer onnxruntime, with the ONNX model as MODEL, or --peer FILE.json");
  report.passes = model.name.ends_with(".tw")
                      ? declined(
                            "an artefact does not hold how long its compilation took: make the report of "
                            "the ONNX model, with --no-cache, and it is compiled and timed")
                      : declined("the artefact came from the cache: --no-cache compiles anew");
  if (!model.times.empty()) report.passes = model.times;
}

int report(const GlobalOptions& global, const VerbOptions& options) {
  const std::string page = options.page.empty()
                               ? std::filesystem::path(options.model).filename().replace_extension(".html").string()
                               : options.page;
  keep_input(options.model, page);
  if (options.no_run && !options.trace_out.empty()) throw UsageError("--trace-out needs a run: leave --no-run out");
  const LoadedModel model = load_model(global, options);
  const ExplainedModel about = examine(global, model, options);
  Report report = artefact::report::collect({options.model, model.artefact, about.run, about.target});
  give_reasons(report, options, model);
  if (!options.peer.empty() && (options.no_run || options.peer != "onnxruntime"))
    report.peer = measure_peer(options, report.inputs, report.threads);
  if (!options.no_run) measure(global, report, model, options);
  if (!options.compared.empty()) compare(global, report, model, options);
  if (!options.no_run && !options.no_verify) verify(global, report, model, options, about.run.entry);
  const std::string html = artefact::report::to_html(report);
  format::write_file_atomically(page, format::bytes_of(html));
  if (!options.trace_out.empty())
    write_trace(options, about.run.steps, report.on_gpu ? "stream" : count_text(report.threads, "thread"));
  say(global,
      fmt::format("{}: {}, {}; open it in a browser", page, count_text(std::ssize(report.explained.groups), "group"),
                  size_text(static_cast<double>(html.size()))));
  if (global.json)
    print_json("tilewright.report.v1", {{"output", page},
                                        {"bytes", html.size()},
                                        {"report", nlohmann::ordered_json::parse(artefact::report::to_json(report))}});
  return !report.verified.ok() || report.verified->ok() ? kOk : kMismatch;
}

}  // namespace

void write_trace(const VerbOptions& options, std::span<const artefact::StepTime> steps, const std::string& track) {
  keep_input(options.model, options.trace_out);
  format::write_file_atomically(options.trace_out,
                                format::bytes_of(artefact::report::to_trace(steps, options.model, track)));
}

void add_report(Application& application) {
  add_verb(
      application,
      {"report",
       "Example: tilewright report resnet50.tw -o report.html\n\nMakes a page of pictures: where time goes, and why. "
       "It shows bounds, graph, memory, candidates and accuracy, and needs no network and no other file.",
       "MODEL", "Artefact (.tw) or ONNX model", report});
}

}  // namespace tw::cli
