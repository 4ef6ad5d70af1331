// tilewright verify MODEL.onnx: against the f64 reference; tilewright verify MODEL --against outputs.npz: against given
// outputs.
#include "artefact/verify.h"

#include <algorithm>
#include <cmath>

#include "artefact/fitting_scale.h"
#include "frontend/onnx/import.h"
#include "ops/list.h"
#include "support/error.h"
#include "support/join.h"
#include "support/text.h"
#include "tilewright/load.h"
#include "tilewright/progress.h"
#include "tilewright/values/arrays.h"
#include "tilewright/values/inputs.h"
#include "tilewright/verb.h"
#include "tilewright/verification.h"

namespace tw::cli {
namespace {

nlohmann::ordered_json to_json(const driver::WorstElement& w) {
  return {{"tensor", w.tensor},
          {"index", w.index},
          {"got", w.got},
          {"want", w.want},
          {"off_by", std::fabs(w.got - w.want)},
          {"bound", w.bound},
          {"wrong", w.wrong},
          {"elements", w.elements},
          {"operator_bound", w.operator_bound},
          {"beyond_operator", w.beyond_operator},
          {"largest_error", w.largest},
          {"spread", w.spread}};
}

// What the largest error means to who reads the numbers: as a share of how far they lie apart, and in digits.
std::string agreement(const driver::WorstElement& w) {
  if (w.spread == 0) return "";
  if (w.largest == 0) return "; all digits agree";
  const double share = w.largest / w.spread;
  const int digits = std::max(0, static_cast<int>(-std::log10(share)));
  const std::string size = share < 1 ? fmt::format("{:.2g} %", 100 * share) : fmt::format("{:.3g} times", share);
  return fmt::format("; the largest error is {} {} of the numbers, {:.3g}: {}", size,
                     share < 1 ? "of the standard deviation" : "the standard deviation", w.spread,
                     digits == 0   ? "no digit agrees"
                     : digits == 1 ? "1 digit agrees"
                                   : fmt::format("{} digits agree", digits));
}

std::string text(const driver::WorstElement& w) {
  return fmt::format("{}: {} of {} elements wrong; worst at {}: got {:.9g}, want {:.9g}, off by {:.3g}, allowed {:.3g}",
                     w.tensor, w.wrong, w.elements, w.index, w.got, w.want, std::fabs(w.got - w.want), w.bound);
}

nlohmann::ordered_json report_outputs(const GlobalOptions& global, const std::vector<driver::WorstElement>& outputs) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const driver::WorstElement& w : outputs) {
    list.push_back(to_json(w));
    say(global, fmt::format("{} {}{}", w.ok() ? "ok      " : "MISMATCH", text(w), agreement(w)));
  }
  return list;
}

int finish(const GlobalOptions& global, bool ok, const nlohmann::ordered_json& details) {
  nlohmann::ordered_json document = {{"ok", ok}};
  document.update(details);
  if (global.json) print_json("tilewright.verify.v1", document);
  return ok ? kOk : kMismatch;
}

// The only array of a file is the only output, whatever it is called.
std::map<std::string, artefact::Array> read_wanted(const std::string& file,
                                                   const std::vector<artefact::NamedType>& outputs) {
  std::map<std::string, artefact::Array> wanted = read_arrays(file);
  if (wanted.size() == 1 && outputs.size() == 1) return {{outputs.front().name, std::move(wanted.begin()->second)}};
  if (wanted.contains(""))
    throw UsageError("--against '{}': the model has {}; give a .npz file with all of them", file,
                     count_text(std::ssize(outputs), "output"));
  return wanted;
}

int verify_against(const GlobalOptions& global, const VerbOptions& options) {
  const LoadedModel model = load_model(global, options);
  artefact::Session session = open_session(global, model, {0, false, options.level, options.inputs.function});
  const std::vector<artefact::Array> outputs = session.run(gather_inputs(options.inputs, session));
  const std::vector<artefact::NamedType> names = session.outputs(session.bound_entry());
  const std::map<std::string, artefact::Array> wanted = read_wanted(options.against, names);
  std::vector<driver::WorstElement> checks;
  bool ok = true;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto found = wanted.find(names[i].name);
    if (found == wanted.end()) {
      const auto there = mapped(wanted, [](const auto& row) { return row.first; });
      throw UsageError("'{}' has no output '{}'{}", options.against, names[i].name,
                       suggestion_or_all(names[i].name, there));
    }
    if (!(found->second.type == outputs[i].type)) {
      throw UsageError("'{}': output '{}' is {}, the model gives {}", options.against, names[i].name,
                       to_string(found->second.type), to_string(outputs[i].type));
    }
    const graph::RefTensor want = artefact::to_reference(found->second);
    std::vector<double> bounds;
    for (const double x : want.floats) bounds.push_back(options.atol + options.rtol * std::fabs(x));
    checks.push_back(driver::compare(names[i].name, artefact::to_reference(outputs[i]), want, bounds));
    ok = ok && checks.back().ok();
  }
  return finish(global, ok,
                {{"against", options.against},
                 {"rtol", options.rtol},
                 {"atol", options.atol},
                 {"outputs", report_outputs(global, checks)}});
}

// The functions to check: the one that is named, that of the entry that is, the first where inputs are given, else all.
std::vector<std::string> chosen_functions(const InputOptions& inputs, const format::Manifest& manifest) {
  if (!inputs.function.empty()) return {inputs.function};
  std::vector<std::string> all;
  for (const format::Function& function : format::functions_of(manifest)) all.push_back(function.name);
  if (!inputs.entry.empty()) {
    const int64_t entry = index_of(manifest.entries, inputs.entry, &format::Entry::name);
    return {entry < 0 ? all.front() : manifest.entries[static_cast<size_t>(entry)].function};
  }
  if (!inputs.inputs.empty()) all.resize(1);
  return all;
}

// The entries to check: the one that is named or that takes the inputs given, else all.
std::vector<std::string> chosen_entries(const InputOptions& inputs, const artefact::Session& session) {
  if (!inputs.entry.empty() || !inputs.inputs.empty()) return {inputs.entry};
  const std::vector<std::string> all = session.entries();
  return mapped(session.own_entries(), [&](int e) { return all[static_cast<size_t>(e)]; });
}

// Elements that only the bound of their algorithm allows, and the groups that have such a bound.
nlohmann::ordered_json show_beyond_operators(const GlobalOptions& global, const artefact::VerifyReport& report) {
  nlohmann::ordered_json groups = nlohmann::ordered_json::array();
  int64_t elements = 0;
  for (const artefact::GroupCheck& g : report.groups) {
    if (!g.has_larger_bound) continue;
    elements += g.beyond_operator();
    for (const driver::WorstElement& w : g.outputs)
      groups.push_back({{"group", g.group}, {"family", g.family}, {"worst", to_json(w)}});
  }
  if (!groups.empty())
    say(global,
        fmt::format("{} by algorithms with a larger error bound than their operators' (Winograd): {} beyond the "
                    "operators' bounds; --precision strict avoids them",
                    count_text(std::ssize(groups), "group"), count_text(elements, "element")));
  return {{"elements", elements}, {"groups", groups}};
}

nlohmann::ordered_json show(const GlobalOptions& global, const artefact::VerifyReport& report) {
  nlohmann::ordered_json blame = nlohmann::ordered_json::array();
  size_t checked = 0;
  for (const artefact::GroupCheck& g : report.groups) {
    checked += !g.outputs.empty();
    if (g.ok()) continue;
    for (const driver::WorstElement& w : g.outputs) {
      blame.push_back({{"group", g.group}, {"family", g.family}, {"worst", to_json(w)}});
      say(global, fmt::format("blame: group {} ({}): {}", g.group, g.family, text(w)));
    }
  }
  say(global, fmt::format("{} for {}: {} checked on own inputs, {} wrong; {} with 1 thread and with all, {} with and "
                          "without shared memory for values",
                          report.entry, report.target, count_text(static_cast<int64_t>(checked), "group"), blame.size(),
                          report.same_bits_for_threads ? "same bits" : "DIFFERENT BITS",
                          report.same_bits_apart ? "same bits" : "DIFFERENT BITS"));
  return {{"entry", report.entry},
          {"level", report.target},
          {"groups", checked},
          {"blame", blame},
          {"same_bits_for_threads", report.same_bits_for_threads},
          {"same_bits_apart", report.same_bits_apart},
          {"beyond_operators", show_beyond_operators(global, report)},
          {"outputs", report_outputs(global, report.outputs)}};
}

// Adds the entries of one function to `done`.
void verify_function(const GlobalOptions& global, const LoadedModel& model, InputOptions inputs,
                     const artefact::Verified& which, Verification& done) {
  artefact::Session session = open_session(global, model, {0, false, which.level, which.function});
  for (const std::string& name : chosen_entries(inputs, session)) {
    inputs.entry = name;
    const std::vector<artefact::Array> arrays = artefact::with_fitting_scale(gather_inputs(inputs, session), session);
    const int entry = session.find_entry(arrays);
    // Where rows are counted, the model's own graph computes with all that there is room for.
    const bool has_source = !model.sources.empty() && model.sources[entry].counted.empty();
    const graph::Graph* source = has_source ? &model.sources[entry].graph : nullptr;
    Progress progress(global);
    const artefact::VerifyReport report =
        artefact::verify_artefact(model.artefact, source, arrays, std::ref(progress), which);
    progress.clear();
    done.entries.push_back(show(global, report));
    done.ok = done.ok && report.ok();
  }
}

int verify_reference(const GlobalOptions& global, const VerbOptions& options) {
  const LoadedModel model = load_model(global, options);
  const Verification done = verify_model(global, model, options.inputs, options.level);
  if (model.sources.empty())
    say(global, "end to end: compared with the graph in the artefact, as it is after the compiler's graph passes");
  return finish(global, done.ok,
                {{"reference", model.sources.empty() ? "artefact" : "source"}, {"entries", done.entries}});
}

int verify(const GlobalOptions& global, const VerbOptions& options) {
  return options.against.empty() ? verify_reference(global, options) : verify_against(global, options);
}

}  // namespace

Verification verify_model(const GlobalOptions& global, const LoadedModel& model, InputOptions inputs,
                          const std::string& level) {
  if (inputs.random.empty()) inputs.random = "seed=0";
  Verification done;
  for (const std::string& name : chosen_functions(inputs, parse_artefact(model.name, model.artefact).manifest())) {
    inputs.function = name;
    verify_function(global, model, inputs, {level, name}, done);
  }
  return done;
}

void add_verify(Application& application) {
  add_verb(application, {"verify",
                         "Example: tilewright verify resnet50.onnx\n\nChecks every result against an f64 reference. "
                         "Each group of operators is checked on its own inputs, and the model from end to end.",
                         "MODEL", "ONNX model, or an artefact (.tw), which is checked against its own graph", verify});
}

}  // namespace tw::cli
