// tilewright verify MODEL.onnx: against the f64 reference; tilewright verify MODEL --against outputs.npz: against given
// outputs.
#include "driver/verify.h"

#include <cmath>

#include "frontend/onnx/import.h"
#include "ops/list.h"
#include "support/error.h"
#include "tilewright/arrays.h"
#include "tilewright/load.h"

namespace tw::cli {
namespace {

struct Options {
  std::string model;
  InputOptions inputs;
  std::string against;
  double rtol = 1e-4;
  double atol = 1e-5;
  ModelOptions compile;
};

nlohmann::ordered_json to_json(const driver::WorstElement& w) {
  return {{"tensor", w.tensor}, {"index", w.index}, {"got", w.got},          {"want", w.want},
          {"bound", w.bound},   {"wrong", w.wrong}, {"elements", w.elements}};
}

std::string text(const driver::WorstElement& w) {
  return fmt::format("{}: {} of {} elements wrong; worst at {}: got {:.9g}, want {:.9g}, off by {:.3g}, allowed {:.3g}",
                     w.tensor, w.wrong, w.elements, w.index, w.got, w.want, std::fabs(w.got - w.want), w.bound);
}

int report_outputs(const GlobalOptions& global, const std::vector<driver::WorstElement>& outputs,
                   nlohmann::ordered_json document, bool ok) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const driver::WorstElement& w : outputs) {
    list.push_back(to_json(w));
    if (!global.json) say(global, fmt::format("{} {}", w.ok() ? "ok      " : "MISMATCH", text(w)));
  }
  document["ok"] = ok;
  document["outputs"] = list;
  if (global.json) print_json("tilewright.verify.v1", document);
  return ok ? kOk : kMismatch;
}

int verify_against(const GlobalOptions& global, const Options& options) {
  driver::Session session = open_model(options.model, options.compile, {});
  const std::vector<driver::Array> outputs = session.run(gather_inputs(options.inputs, session.inputs()));
  const std::map<std::string, driver::Array> wanted = read_npz(options.against);
  std::vector<driver::WorstElement> checks;
  bool ok = true;
  const std::vector<driver::NamedType> names = session.outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto found = wanted.find(names[i].name);
    if (found == wanted.end()) throw UsageError(fmt::format("'{}' has no output '{}'", options.against, names[i].name));
    if (!(found->second.type == outputs[i].type)) {
      throw UsageError(fmt::format("'{}': output '{}' is {}, the model gives {}", options.against, names[i].name,
                                   to_string(found->second.type), to_string(outputs[i].type)));
    }
    const graph::RefTensor want = driver::to_reference(found->second);
    std::vector<double> bounds;
    for (const double x : want.floats) bounds.push_back(options.atol + options.rtol * std::fabs(x));
    checks.push_back(driver::compare(names[i].name, driver::to_reference(outputs[i]), want, bounds));
    ok = ok && checks.back().ok();
  }
  return report_outputs(global, checks, {{"against", options.against}, {"rtol", options.rtol}, {"atol", options.atol}},
                        ok);
}

int verify_reference(const GlobalOptions& global, const Options& options) {
  if (options.model.ends_with(".tw")) {
    throw UsageError(fmt::format("'{}' holds no source weights; give --against outputs.npz, or verify the ONNX model",
                                 options.model));
  }
  driver::CompileOptions compile = to_compile_options(options.compile);
  const graph::Graph source = frontend::import_onnx_file(options.model, ops::all_ops(), compile.import).graph;
  std::vector<driver::NamedType> expected;
  for (const graph::ValueId id : source.inputs) expected.push_back({source.value(id).name, source.value(id).type});
  InputOptions inputs = options.inputs;
  if (inputs.random.empty()) inputs.random = "seed=0";
  Progress progress;
  const driver::VerifyReport report =
      driver::verify_graph(source, compile, gather_inputs(inputs, expected), std::ref(progress));
  nlohmann::ordered_json blame = nlohmann::ordered_json::array();
  size_t checked = 0;
  for (const driver::GroupCheck& g : report.groups) {
    checked += !g.outputs.empty();
    if (g.ok()) continue;
    for (const driver::WorstElement& w : g.outputs) {
      blame.push_back({{"group", g.group}, {"family", g.family}, {"worst", to_json(w)}});
      say(global, fmt::format("blame: group {} ({}): {}", g.group, g.family, text(w)));
    }
  }
  say(global, fmt::format("{} groups checked on their own inputs, {} wrong; {} for 1 thread and all", checked,
                          blame.size(), report.same_bits_for_threads ? "same bits" : "DIFFERENT BITS"));
  return report_outputs(
      global, report.outputs,
      {{"groups", checked}, {"blame", blame}, {"same_bits_for_threads", report.same_bits_for_threads}}, report.ok());
}

}  // namespace

void add_verify(Application& application) {
  CLI::App* verb = application.app.add_subcommand("verify",
                                                  "Example: tilewright verify resnet50.onnx\n\nChecks a model against "
                                                  "the f64 reference evaluator, group by group and end to end.");
  auto options = std::make_shared<Options>();
  verb->add_option("MODEL", options->model, "ONNX model, or an artefact with --against")->required();
  verb->add_option("--input", options->inputs.inputs,
                   "NAME=@FILE.npy, FILE.npz or an ONNX test_data_set folder (default: seeded values)");
  verb->add_option("--random", options->inputs.random, "seed=N for inputs that are not given (default 0)");
  verb->add_option("--against", options->against, "Expected outputs (.npz) instead of the reference evaluator");
  verb->add_option("--rtol", options->rtol, "Relative tolerance of --against")->capture_default_str();
  verb->add_option("--atol", options->atol, "Absolute tolerance of --against")->capture_default_str();
  add_model_options(*verb, options->compile);
  verb->callback([&application, options] {
    application.run = [&application, options] {
      return options->against.empty() ? verify_reference(application.global, *options)
                                      : verify_against(application.global, *options);
    };
  });
}

}  // namespace tw::cli
