// tilewright refit MODEL.tw --weights FILE -o OTHER.tw
#include "driver/refit.h"

#include "runtime/format/signature.h"
#include "support/error.h"
#include "support/mapped_file.h"
#include "support/text.h"
#include "tilewright/progress.h"
#include "tilewright/trust/trusted.h"
#include "tilewright/verb.h"
#include "tilewright/verification.h"

namespace tw::cli {
namespace {

std::shared_ptr<const frontend::Weights> read_all(const std::vector<std::string>& files) {
  auto all = std::make_shared<frontend::Weights>();
  for (const std::string& file : files) {
    const std::shared_ptr<const frontend::Weights> some = driver::read_weights(file);
    for (const auto& [name, weight] : *some) {
      if (!all->emplace(name, weight).second) throw UsageError("--weights '{}': '{}' was given before", file, name);
    }
  }
  return all;
}

void check_names(const VerbOptions& options) {
  if (options.weights.empty()) throw UsageError("--weights is required");
  if (options.refitted.empty()) throw UsageError("--output is required");
  if (!options.model.ends_with(".tw")) throw UsageError("'{}' is not an artefact: compile it first", options.model);
  if (!options.refitted.ends_with(".tw"))
    throw UsageError("-o '{}': the name of an artefact ends in .tw", options.refitted);
  for (const std::string& file : options.weights) keep_input(file, options.refitted);
}

int refit(const GlobalOptions& global, const VerbOptions& options) {
  check_names(options);
  Progress progress(global);
  const double start = now_seconds();
  const Result<MappedFile> file = MappedFile::open(options.model);
  if (!file) throw UsageError("{}", file.reason());
  check_signature(options.model, file->bytes(), options.trusted);
  const driver::Refitted made = driver::refit(file->bytes(), read_all(options.weights), std::ref(progress));
  progress.clear();
  if (format::signature_of(file->bytes()))
    note(global, fmt::format("'{}' is signed, '{}' is not: sign it again", options.model, options.refitted));
  const double refitted = now_seconds();
  Verification verification;
  if (!options.no_verify) {
    const LoadedModel model{options.refitted, format::serialize_artefact(made.manifest, made.sections()), made.sources};
    verification = verify_model(global, model, options.inputs, options.level);
  }
  const double verified = now_seconds();
  if (verification.ok) format::write_artefact(options.refitted, made.manifest, made.sections());
  const double seconds = now_seconds() - verified + refitted - start;
  const double verify_seconds = verified - refitted;
  if (global.json) {
    print_json("tilewright.refit.v1", {{"ok", verification.ok},
                                       {"output", options.refitted},
                                       {"seconds", seconds},
                                       {"verified", !options.no_verify},
                                       {"verify_seconds", verify_seconds},
                                       {"entries", verification.entries}});
  } else if (verification.ok) {
    say(global,
        fmt::format("{} -> {} in {}{}", options.model, options.refitted, time_text(seconds),
                    options.no_verify ? "; not verified" : fmt::format("; verified in {}", time_text(verify_seconds))));
  }
  if (!verification.ok) print_error("tilewright: '{}' is not written\n", options.refitted);
  return verification.ok ? kOk : kMismatch;
}

}  // namespace

void add_refit(Application& application) {
  add_verb(application, {"refit",
                         "Example: tilewright refit resnet50.tw --weights tuned.safetensors -o tuned.tw\n\nGives a "
                         "compiled model new weights. Code and plan stay; constants are computed and stored again.",
                         "MODEL", "Artefact (.tw) that was compiled from an ONNX model", refit});
}

}  // namespace tw::cli
