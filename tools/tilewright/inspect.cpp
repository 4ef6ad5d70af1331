// tilewright inspect FILE: what is in an ONNX model, an artefact or a plan. Needs no device.
#include <set>

#include "artefact/check.h"
#include "artefact/sketch.h"
#include "frontend/onnx/import.h"
#include "plan/plan.h"
#include "runtime/format/atomic_file.h"
#include "runtime/format/container.h"
#include "runtime/format/error.h"
#include "runtime/format/problem.h"
#include "runtime/format/signature.h"
#include "runtime/format/turns.h"
#include "support/error.h"
#include "support/join.h"
#include "support/text.h"
#include "tilewright/command.h"
#include "tilewright/load.h"
#include "tilewright/verb.h"

namespace tw::cli {
namespace {

// "cublaslt, measured with version 130100"
std::set<std::string> needed_libraries(const format::Manifest& manifest) {
  std::set<std::string> needed;
  for (const format::Entry& entry : manifest.entries) {
    for (const format::CudaStep& step : entry.cuda_steps) {
      if (step.call.empty()) continue;
      const format::LibraryCall call = format::parse_library_call(step.call);
      needed.insert(fmt::format("{}, measured with version {}", call.library, call.version));
    }
  }
  return needed;
}

std::string as_stored(const std::vector<int64_t>& order) {
  return order.empty() ? "" : fmt::format(", dims stored as {}", format::shape_text(order));
}

std::string description(const format::TensorSpec& t) {
  return fmt::format("{}: {}{}", t.name, format::name_of(t.dtype), format::shape_text(t.shape));
}

// "h: f32[1,16,8,8], becomes h.next, dims stored as [0,2,3,1]"
std::string description(const format::State& state) {
  return fmt::format("{}, becomes {}{}", description(state.tensor), state.next, as_stored(state.order));
}

// Who signed the file, and whether the signature is one of these bytes. Nothing: nobody.
struct Signer {
  std::string key;
  std::optional<bool> holds;  // nothing: this machine cannot check it
};
std::optional<Signer> signer_of(const std::vector<uint8_t>& bytes) {
  const std::optional<format::Signature> signature = format::signature_of(bytes);
  if (!signature) return std::nullopt;
  Signer signer{format::to_text(signature->key), std::nullopt};
  try {
    signer.holds = format::holds(bytes, *signature);
  } catch (const format::Error& error) {
    if (error.code() != format::ErrorCode::kIncompatible) throw;
  }
  return signer;
}

nlohmann::json to_json(const std::optional<Signer>& signer) {
  if (!signer) return nullptr;
  return {{"key", signer->key}, {"holds", signer->holds ? nlohmann::json(*signer->holds) : nlohmann::json(nullptr)}};
}

int inspect_artefact(const GlobalOptions& global, const VerbOptions& options, const std::vector<uint8_t>& bytes) {
  const format::Artefact artefact = parse_artefact(options.model, bytes);
  if (!options.section.empty()) {
    const format::Bytes section = artefact.section(options.section);
    const std::vector<std::string> names = mapped(artefact.sections(), &format::Section::name);
    if (index_of(names, options.section) < 0)
      throw UsageError("there is no section '{}'{}", options.section, suggestion_or_all(options.section, names));
    print_output({reinterpret_cast<const char*>(section.data()), section.size()});
    return kOk;
  }
  if (!options.groups_out.empty()) {
    keep_input(options.model, options.groups_out);
    format::write_file_atomically(options.groups_out, format::bytes_of(artefact::groups_as_onnx(bytes)));
    print_error("tilewright: wrote {}; Netron shows its groups\n", options.groups_out);
  }
  if (options.check) artefact::check_artefact(bytes);
  const format::Manifest& m = artefact.manifest();
  if (global.json) {
    print_json("tilewright.inspect.v1",
               {{"manifest", nlohmann::json::parse(format::to_json(m))}, {"signature", to_json(signer_of(bytes))}});
    return kOk;
  }
  std::string targets;
  for (const format::ManifestTarget& t : m.targets) targets += (targets.empty() ? "" : ", ") + t.arch;
  const std::string dtype =
      m.dtype == format::DataType::kF32 ? "" : fmt::format(", f32 as {}", format::name_of(m.dtype));
  say(global, fmt::format("artefact by {} for {}{}", m.producer, targets, dtype));
  if (const std::optional<Signer> signer = signer_of(bytes))
    say(global, fmt::format("  signed with the key {}{}", signer->key,
                            !signer->holds   ? ", which was not checked: libcrypto.so.3 is not here"
                            : *signer->holds ? ""
                                             : ", but not these bytes: the file was changed since"));
  for (const format::Section& s : artefact.sections())
    say(global, fmt::format("  section {:<10} {:>10}", s.name, size_text(static_cast<double>(s.bytes.size()))));
  for (const std::string& library : needed_libraries(m)) say(global, "  needs " + library);
  for (const format::State& s : m.states) {
    say(global, "  state  " + description(s));
    for (const format::StatePart& p : s.parts) say(global, "    part " + description(p.tensor) + as_stored(p.order));
  }
  for (const format::Entry& e : m.entries) {
    const size_t steps = e.cpu_steps.size() + e.cuda_steps.size(), all = format::steps_run(e, steps);
    say(global, fmt::format("entry {} for {}: {}{}, {} of working memory", e.name, m.targets[e.target].arch,
                            count_text(static_cast<int64_t>(steps), "step"),
                            all == steps ? "" : fmt::format(", with the turns of loops {}", all),
                            size_text(static_cast<double>(e.arena_bytes))));
    for (const format::Extent& x : e.extents)
      say(global, fmt::format("  {} is {} to {}, as the inputs say{}; the shapes are the largest", x.name, x.least,
                              x.bound, x.in_parts ? ", or more, in parts" : ""));
    for (const format::TensorSpec& t : e.inputs)
      say(global, fmt::format("  input  {}: {}{}", t.name, format::name_of(t.dtype), format::shape_text(t.shape)));
    for (const format::TensorSpec& t : e.outputs)
      say(global, fmt::format("  output {}: {}{}", t.name, format::name_of(t.dtype), format::shape_text(t.shape)));
  }
  if (options.check)
    say(global,
        "checked: manifest, kernels, plan and graphs agree; nothing was run. What kernels compute, verify says");
  return kOk;
}

nlohmann::ordered_json to_json(const std::vector<frontend::ModelSummary::Value>& values) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const frontend::ModelSummary::Value& v : values) out[v.name] = v.type;
  return out;
}

frontend::ModelSummary read_summary(const std::string& file) {
  try {
    return frontend::summarize_onnx_file(file);
  } catch (const frontend::NotAModel& error) {
    throw neither(file, error);
  }
}

// What the file says of itself: nothing is imported, so that models with open dimensions or operators that are not
// supported can be looked at too.
int inspect_model(const GlobalOptions& global, const VerbOptions& options) {
  const frontend::ModelSummary model = read_summary(options.model);
  if (global.json) {
    print_json("tilewright.inspect.v1", {{"opsets", model.opsets},
                                         {"producer", model.producer},
                                         {"inputs", to_json(model.inputs)},
                                         {"outputs", to_json(model.outputs)},
                                         {"operators", model.operators},
                                         {"initializers", model.initializers}});
    return kOk;
  }
  std::string opsets;
  for (const auto& [domain, version] : model.opsets)
    opsets += fmt::format(", {} {}", domain.empty() ? "opset" : domain, version);
  say(global, fmt::format("ONNX model{}, by {}", opsets, model.producer.empty() ? "unknown" : model.producer));
  for (const frontend::ModelSummary::Value& v : model.inputs)
    say(global, fmt::format("  input  {}: {}", v.name, v.type));
  for (const frontend::ModelSummary::Value& v : model.outputs)
    say(global, fmt::format("  output {}: {}", v.name, v.type));
  int64_t nodes = 0;
  for (const auto& [op, count] : model.operators) nodes += count;
  say(global, fmt::format("  {}, {}", count_text(nodes, "operator"), count_text(model.initializers, "initializer")));
  for (const auto& [op, count] : model.operators) say(global, fmt::format("  {:>5} {}", count, op));
  return kOk;
}

int inspect(const GlobalOptions& global, const VerbOptions& options) {
  if (!options.groups_out.empty() && !options.model.ends_with(".tw"))
    throw UsageError("--onnx '{}': only artefacts (.tw) have groups; compile '{}' first", options.groups_out,
                     options.model);
  const std::vector<uint8_t> bytes = read_file(options.model);
  if (is_artefact(options.model)) return inspect_artefact(global, options, bytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("tilewright plan")) {
    const std::string plan = plan::to_string(plan::parse_plan(text));
    if (global.json) print_json("tilewright.inspect.v1", {{"plan", plan}});
    if (!global.json) print_output(plan);
    return kOk;
  }
  return inspect_model(global, options);
}

}  // namespace

void add_inspect(Application& application) {
  add_verb(application,
           {"inspect", "Example: tilewright inspect resnet50.tw\n\nShows what a model, an artefact or a plan contains.",
            "FILE", "ONNX model, artefact (.tw) or plan", inspect});
}

}  // namespace tw::cli
