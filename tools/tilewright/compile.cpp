// tilewright compile MODEL.onnx -o MODEL.tw
#include <filesystem>

#include "runtime/format/atomic_file.h"
#include "support/error.h"
#include "tilewright/command.h"
#include "tilewright/model_options.h"
#include "tilewright/progress.h"

namespace tw::cli {
namespace {

struct Options {
  std::string model;
  std::string output;
  std::string plan_out;
  bool time_passes = false;
  ModelOptions compile;
};

std::map<std::string, int> count_families(const driver::Compiled& compiled) {
  std::map<std::string, int> counts;
  for (const plan::EntryPlan& entry : compiled.plan.entries) {
    for (const plan::GroupPlan& g : entry.groups) ++counts[g.family];
  }
  return counts;
}

size_t count_groups(const driver::Compiled& compiled) {
  size_t count = 0;
  for (const plan::EntryPlan& entry : compiled.plan.entries) count += entry.groups.size();
  return count;
}

void print_times(const GlobalOptions& global, const driver::Compiled& compiled) {
  for (const driver::PassTime& t : compiled.times)
    say(global, fmt::format("  {:<6} {:<24} {:9.3f} ms", t.phase, t.pass, t.nanoseconds / 1e6));
}

void print_groups(const GlobalOptions& global, const driver::Compiled& compiled) {
  for (const plan::EntryPlan& entry : compiled.plan.entries) {
    for (const plan::GroupPlan& g : entry.groups) {
      say(global, fmt::format("  {:<12} {}", g.family, g.name));
      if (global.verbose < 2) continue;
      for (const plan::Rival& r : g.rivals) say(global, fmt::format("    not {}: {}", r.family, r.reason));
    }
  }
}

int compile(const GlobalOptions& global, const Options& options) {
  driver::CompileOptions compile = to_compile_options(options.compile);
  Progress progress(global);
  compile.progress = std::ref(progress);
  const double start = now_seconds();
  std::string output = options.output;
  if (output.empty()) output = std::filesystem::path(options.model).replace_extension(".tw").string();
  if (options.model.ends_with(".tw")) throw UsageError(fmt::format("'{}' is compiled already", options.model));
  const driver::Compiled compiled = driver::compile_file(options.model, compile);
  if (!options.compile.stop_after.empty()) {
    say(global, fmt::format("stopped after pass {}", options.compile.stop_after));
    return kOk;
  }
  driver::write_artefact(compiled, output);
  if (!options.plan_out.empty()) {
    const std::string text = plan::to_string(compiled.plan);
    format::write_file_atomically(options.plan_out, [&](const format::PutBytes& put) {
      put({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
    });
  }
  const double seconds = now_seconds() - start;
  for (const std::string& warning : compiled.warnings) fmt::print(stderr, "tilewright: warning: {}\n", warning);
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(output));
  if (global.json) {
    print_json("tilewright.compile.v1", {{"output", output},
                                         {"target", compiled.plan.target},
                                         {"entries", compiled.plan.entries.size()},
                                         {"groups", count_groups(compiled)},
                                         {"kernels", compiled.kernels},
                                         {"families", count_families(compiled)},
                                         {"bytes", bytes},
                                         {"seconds", seconds}});
    return kOk;
  }
  std::string families;
  for (const auto& [family, count] : count_families(compiled))
    families += fmt::format("{} {} {}", families.empty() ? "" : ",", count, family);
  say(global, fmt::format("{} -> {} ({:.1f} MB) for {} in {:.2f} s", options.model, output, bytes / 1e6,
                          compiled.plan.target, seconds));
  if (compiled.plan.entries.size() > 1) {
    say(global, fmt::format("{} combinations of shapes share weights and code:", compiled.plan.entries.size()));
    for (const plan::EntryPlan& entry : compiled.plan.entries) say(global, "  " + entry.name);
  }
  say(global, fmt::format("{} groups:{}; {} different kernels", count_groups(compiled), families, compiled.kernels));
  if (global.verbose > 0) print_groups(global, compiled);
  if (options.time_passes) print_times(global, compiled);
  return kOk;
}

}  // namespace

void add_compile(Application& application) {
  CLI::App* verb = application.app.add_subcommand(
      "compile", "Example: tilewright compile resnet50.onnx -o resnet50.tw\n\nCompiles an ONNX model to an artefact.");
  auto options = std::make_shared<Options>();
  verb->add_option("MODEL", options->model, "ONNX model")->required();
  verb->add_option("-o,--output", options->output, "Artefact to write (default: the model's name with .tw)");
  verb->add_option("--plan-out", options->plan_out, "Write the plan (the decisions) to this file");
  verb->add_flag("--time-passes", options->time_passes, "Print the time of every pass");
  verb->add_option("--stop-after", options->compile.stop_after, "Stop after this graph pass; no artefact is written");
  add_model_options(*verb, options->compile);
  verb->callback([&application, options] {
    application.run = [&application, options] { return compile(application.global, *options); };
  });
}

}  // namespace tw::cli
