// tilewright run MODEL --input x=@x.npy --output y=@y.npy
#include <algorithm>
#include <cctype>
#include <filesystem>

#include "support/error.h"
#include "support/join.h"
#include "support/option_value.h"
#include "support/text.h"
#include "tilewright/load.h"
#include "tilewright/values/arrays.h"
#include "tilewright/values/inputs.h"
#include "tilewright/verb.h"

namespace tw::cli {
namespace {

std::string file_name(std::string name) {
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_' && c != '-') c = '_';
  }
  return name + ".npy";
}

void store_outputs(const VerbOptions& options, const std::vector<artefact::NamedType>& names,
                   const std::vector<artefact::Array>& outputs) {
  if (!options.output_dir.empty()) {
    std::error_code code;
    std::filesystem::create_directories(options.output_dir, code);
    if (code) throw UsageError("--output-dir '{}': {}", options.output_dir, code.message());
    for (size_t i = 0; i < outputs.size(); ++i)
      write_npy(options.output_dir + "/" + file_name(names[i].name), outputs[i]);
  }
  for (const std::string& text : options.outputs) {
    const auto [name, file] = parse_binding({text, "--output"});
    const auto found = std::ranges::find(names, name, &artefact::NamedType::name);
    if (file.empty() || file[0] != '@') throw UsageError("--output '{}': expected NAME=@FILE.npy", text);
    if (found == names.end())
      throw UsageError("the model has no output '{}'{}", name,
                       suggestion_or_all(name, mapped(names, &artefact::NamedType::name)));
    keep_input(options.model, file.substr(1));
    write_npy(file.substr(1), outputs[found - names.begin()]);
  }
}

struct Summary {
  double low = 0;
  double high = 0;
  double mean = 0;
};

Summary summarize(const artefact::Array& array) {
  const graph::RefTensor t = artefact::to_reference(array);
  Summary s;
  const int64_t n = t.type.elements();
  for (int64_t i = 0; i < n; ++i) {
    const double x = t.at(i);
    s.low = i == 0 ? x : std::min(s.low, x);
    s.high = i == 0 ? x : std::max(s.high, x);
    s.mean += x / static_cast<double>(n);
  }
  return s;
}

int run(const GlobalOptions& global, const VerbOptions& options) {
  const LoadedModel model = load_model(global, options);
  artefact::Session session =
      open_session(global, model, {options.threads, false, options.level, options.inputs.function});
  std::vector<artefact::Array> outputs = session.run(gather_inputs(options.inputs, session));
  if (!session.changes_states()) outputs.resize(outputs.size() - session.states().size());
  if (global.verbose > 0) say(global, "code for " + session.target());
  const std::string entry = bound_entry_text(session);
  if (!entry.empty()) say(global, entry);
  std::vector<artefact::NamedType> names = session.outputs(session.bound_entry());
  names.resize(outputs.size());
  store_outputs(options, names, outputs);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Summary s = summarize(outputs[i]);
    if (global.json) {
      list.push_back({{"name", names[i].name},
                      {"dtype", to_string(outputs[i].type.type)},
                      {"shape", outputs[i].type.shape},
                      {"min", s.low},
                      {"max", s.high},
                      {"mean", s.mean}});
    } else {
      say(global, fmt::format("{}: {}  min {:.6g}  max {:.6g}  mean {:.6g}", names[i].name, to_string(outputs[i].type),
                              s.low, s.high, s.mean));
    }
  }
  if (global.json)
    print_json("tilewright.run.v1", {{"level", session.target()},
                                     {"entry", session.entries()[static_cast<size_t>(session.bound_entry())]},
                                     {"outputs", list}});
  return kOk;
}

}  // namespace

void add_run(Application& application) {
  add_verb(application,
           {"run",
            "Example: tilewright run resnet50.tw --random seed=0 --output-dir out\n\nRuns a model once and "
            "shows or writes its outputs.",
            "MODEL", "Artefact (.tw) or ONNX model", run});
}

}  // namespace tw::cli
