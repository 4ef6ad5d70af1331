// tilewright inspect FILE: what is in an ONNX model, an artefact or a plan. Needs no device.
#include "ops/list.h"
#include "runtime/format/container.h"
#include "support/error.h"
#include "tilewright/command.h"
#include "tilewright/model_options.h"

namespace tw::cli {
namespace {

struct Options {
  std::string file;
  std::string section;
  ModelOptions compile;
};

int inspect_artefact(const GlobalOptions& global, const Options& options, const std::vector<uint8_t>& bytes) {
  const format::Artefact artefact = parse_artefact(options.file, bytes);
  if (!options.section.empty()) {
    const format::Bytes section = artefact.section(options.section);
    fmt::print("{}", std::string_view(reinterpret_cast<const char*>(section.data()), section.size()));
    return kOk;
  }
  const format::Manifest& m = artefact.manifest();
  if (global.json) {
    print_json("tilewright.inspect.v1", {{"manifest", nlohmann::json::parse(format::to_json(m))}});
    return kOk;
  }
  say(global, fmt::format("artefact by {} for {}", m.producer, m.target.arch));
  for (const format::Section& s : artefact.sections())
    say(global, fmt::format("  section {:<10} {:>12} bytes", s.name, s.bytes.size()));
  for (const format::Entry& e : m.entries) {
    say(global, fmt::format("entry {}: {} steps, arena {} bytes", e.name, e.cpu_steps.size() + e.cuda_steps.size(),
                            e.arena_bytes));
    for (const format::TensorSpec& t : e.inputs)
      say(global, fmt::format("  input  {}: {}{}", t.name, format::name_of(t.dtype), format::shape_text(t.shape)));
    for (const format::TensorSpec& t : e.outputs)
      say(global, fmt::format("  output {}: {}{}", t.name, format::name_of(t.dtype), format::shape_text(t.shape)));
  }
  return kOk;
}

int inspect_model(const GlobalOptions& global, const Options& options) {
  const driver::CompileOptions compile = to_compile_options(options.compile);
  const frontend::ImportResult model = frontend::import_onnx_file(options.file, ops::all_ops(), compile.imports.front());
  std::map<std::string, int> counts;
  int64_t weights = 0;
  for (const graph::Node& n : model.graph.nodes) ++counts[n.op];
  for (const graph::Value& v : model.graph.values) weights += v.is_constant() ? v.type.bytes() : 0;
  nlohmann::ordered_json inputs;
  nlohmann::ordered_json outputs;
  for (const graph::ValueId id : model.graph.inputs)
    inputs[model.graph.value(id).name] = to_string(model.graph.value(id).type);
  for (const graph::ValueId id : model.graph.outputs)
    outputs[model.graph.value(id).name] = to_string(model.graph.value(id).type);
  if (global.json) {
    print_json("tilewright.inspect.v1", {{"opset", model.opset},
                                         {"producer", model.producer},
                                         {"inputs", inputs},
                                         {"outputs", outputs},
                                         {"operators", counts},
                                         {"constant_bytes", weights}});
    return kOk;
  }
  say(global,
      fmt::format("ONNX model, opset {}, by {}", model.opset, model.producer.empty() ? "unknown" : model.producer));
  for (const auto& [name, type] : inputs.items())
    say(global, fmt::format("  input  {}: {}", name, type.get<std::string>()));
  for (const auto& [name, type] : outputs.items())
    say(global, fmt::format("  output {}: {}", name, type.get<std::string>()));
  say(global, fmt::format("  {} operators, {:.1f} MB of constants", model.graph.nodes.size(), weights / 1e6));
  for (const auto& [op, count] : counts) say(global, fmt::format("  {:>5} {}", count, op));
  return kOk;
}

int inspect(const GlobalOptions& global, const Options& options) {
  const std::vector<uint8_t> bytes = read_file(options.file);
  if (options.file.ends_with(".tw")) return inspect_artefact(global, options, bytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("tilewright plan")) {
    fmt::print("{}", plan::to_string(plan::parse_plan(text)));
    return kOk;
  }
  return inspect_model(global, options);
}

}  // namespace

void add_inspect(Application& application) {
  CLI::App* verb = application.app.add_subcommand(
      "inspect", "Example: tilewright inspect resnet50.tw\n\nShows what a model, an artefact or a plan holds.");
  auto options = std::make_shared<Options>();
  verb->add_option("FILE", options->file, "ONNX model, artefact (.tw) or plan")->required();
  verb->add_option("--section", options->section, "Print this section of an artefact as it is (plan, graph.0)");
  add_model_options(*verb, options->compile);
  verb->callback([&application, options] {
    application.run = [&application, options] { return inspect(application.global, *options); };
  });
}

}  // namespace tw::cli
