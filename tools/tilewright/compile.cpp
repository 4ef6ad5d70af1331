// tilewright compile MODEL.onnx -o MODEL.tw
#include <filesystem>

#include "driver/outcome.h"
#include "runtime/format/atomic_file.h"
#include "support/error.h"
#include "support/join.h"
#include "support/text.h"
#include "tilewright/command.h"
#include "tilewright/load.h"
#include "tilewright/model_options.h"
#include "tilewright/progress.h"
#include "tilewright/verb.h"

namespace tw::cli {
namespace {

void print_times(const GlobalOptions& global, const driver::CompileOutcome& outcome) {
  for (const driver::PassTime& t : outcome.times)
    say(global, fmt::format("  {:<6} {:<24} {:9.3f} ms", t.phase, t.pass, t.nanoseconds / 1e6));
}

void print_groups(const GlobalOptions& global, const plan::Plan& plan) {
  for (const plan::EntryPlan& entry : plan.entries) {
    for (const plan::PassVariant& r : entry.passes)
      say(global, fmt::format("  pass {} {}: {:.1f} us, {:.1f} as it predicts{}", r.pass, r.variant, r.us, r.usual_us,
                              r.is_chosen ? "; chosen" : ""));
    for (const plan::GroupPlan& g : entry.groups) {
      const std::string measured = g.microseconds > 0 ? fmt::format(" {:.1f} us", g.microseconds) : "";
      const std::string predicted = g.predicted_us > 0 ? fmt::format(" ({:.1f} us predicted)", g.predicted_us) : "";
      say(global, fmt::format("  {:<12} {}{}{}", g.family, g.name, measured, predicted));
      if (global.verbose < 2) continue;
      for (const plan::OtherCandidate& r : g.other_candidates)
        say(global, fmt::format("    not {}: {}", r.family, r.reason));
    }
  }
}

// The decisions that an artefact on disk holds.
std::string plan_of(const std::string& artefact) {
  const std::vector<uint8_t> bytes = read_file(artefact);
  const auto plan = parse_artefact(artefact, bytes).section("plan");
  return {plan.begin(), plan.end()};
}

// Compiles to `output`, or copies what an earlier compilation left in the cache.
driver::CompileOutcome produce(const VerbOptions& options, driver::CompileOptions compile, const std::string& output,
                               Progress& progress) {
  auto [cache, key] = find_in_cache(options.model, compile, progress);
  if (options.time_passes) key.reset();
  if (key) {
    if (const auto hit = cache.find(*key)) {
      format::write_file_atomically(output, hit->artefact.bytes());
      return {hit->summary, {}, true};
    }
  }
  const driver::Compiled compiled = driver::compile_file(options.model, compile);
  if (!options.compile.stop_after.empty()) return {};
  driver::write_artefact(compiled, output);
  if (key) {
    const Result<MappedFile> written = MappedFile::open(output);
    if (written.ok()) cache.store(*key, written->bytes(), compiled);
  }
  return driver::outcome_of(compiled);
}

void print_text(const GlobalOptions& global, const VerbOptions& options, const driver::CompileOutcome& outcome,
                const std::string& line) {
  const driver::CompileSummary& summary = outcome.summary;
  const auto families = mapped(summary.families, [](const auto& f) { return fmt::format("{} {}", f.first, f.second); });
  say(global, line + (outcome.cached ? ", from the cache" : ""));
  if (summary.entries.size() > 1) {
    say(global, fmt::format("{} combinations of shapes share weights and code:", summary.entries.size()));
    for (const std::string& entry : summary.entries) say(global, "  " + entry);
  }
  say(global, fmt::format("{} by family: {}; {}", count_text(summary.groups, "group"), fmt::join(families, ", "),
                          count_text(summary.kernels, "different kernel")));
  say_winograd(global, summary);
  say_measured(global, outcome.profiling);
  const driver::Padding& padding = outcome.padding;
  if (padding.kernels > 0) say(global, padding_text(padding));
  if (options.time_passes) print_times(global, outcome);
}

int compile(const GlobalOptions& global, const VerbOptions& options) {
  Progress progress(global);
  const driver::CompileOptions compile = with_surroundings(options.compile, progress);
  const double start = now_seconds();
  std::string output = options.output;
  if (output.empty()) output = std::filesystem::path(options.model).filename().replace_extension(".tw").string();
  if (is_artefact(options.model)) throw UsageError("'{}' is compiled already", options.model);
  if (!output.ends_with(".tw")) throw UsageError("-o '{}': the name of an artefact ends in .tw", output);
  if (options.plan_out.ends_with(".tw"))
    throw UsageError("--plan-out '{}': a name that ends in .tw is for artefacts; plans end in .twp", options.plan_out);
  keep_input(options.model, options.plan_out);
  const driver::CompileOutcome outcome = produce(options, compile, output, progress);
  if (!options.compile.stop_after.empty()) {
    say(global, fmt::format("stopped after pass {}; no artefact is written", options.compile.stop_after));
    return kOk;
  }
  const double seconds = now_seconds() - start;
  std::string plan;
  const bool has_layouts = compile.layouts == driver::LayoutUse::kMeasured;
  if (!options.plan_out.empty() || global.verbose > 0 || has_layouts) plan = plan_of(output);
  if (!options.plan_out.empty()) format::write_file_atomically(options.plan_out, format::bytes_of(plan));
  for (const std::string& warning : outcome.summary.warnings) print_error("tilewright: warning: {}\n", warning);
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(output));
  if (global.json) {
    nlohmann::ordered_json document = {{"output", output}, {"bytes", bytes}, {"seconds", seconds}};
    document.update(to_json(outcome));
    if (!options.time_passes) document.erase("times");
    print_json("tilewright.compile.v1", document);
    return kOk;
  }
  progress.clear();
  print_text(global, options, outcome,
             fmt::format("{} -> {} ({}) for {} in {}", options.model, output, size_text(static_cast<double>(bytes)),
                         outcome.summary.target, time_text(seconds)));
  if (has_layouts) say_layouts(global, plan::parse_plan(plan));
  if (global.verbose > 0) print_groups(global, plan::parse_plan(plan));
  return kOk;
}

}  // namespace

void add_compile(Application& application) {
  add_verb(
      application,
      {"compile", "Example: tilewright compile resnet50.onnx -o resnet50.tw\n\nCompiles an ONNX model to an artefact.",
       "MODEL", "ONNX model", compile});
}

}  // namespace tw::cli
