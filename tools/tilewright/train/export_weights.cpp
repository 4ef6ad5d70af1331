// tilewright export-weights MODEL.onnx --state trained.safetensors -o NEW.onnx
#include "driver/refit.h"
#include "frontend/onnx/edit/editable_model.h"
#include "runtime/format/atomic_file.h"
#include "support/error.h"
#include "support/join.h"
#include "support/text.h"
#include "tilewright/load.h"
#include "tilewright/verb.h"

namespace tw::cli {
namespace {

void check_words(const VerbOptions& options) {
  if (is_artefact(options.model))
    throw UsageError("'{}' is an artefact: weights go into the ONNX model that was trained", options.model);
  if (options.trained_state.empty()) throw UsageError("--state is required: what a state was saved to");
  if (options.exported.empty()) throw UsageError("--output is required");
  if (!options.exported.ends_with(".onnx"))
    throw UsageError("-o '{}': the name of an ONNX model ends in .onnx", options.exported);
  for (const std::string& file : {options.model, options.trained_state}) keep_input(file, options.exported);
}

frontend::EditableModel read_model(const VerbOptions& options) {
  try {
    return frontend::EditableModel::read(options.model, options.compile.imports.front().link_folders)
        .with_own_parameters();
  } catch (const frontend::NotAModel& error) {
    throw neither(options.model, error);
  }
}

// What of a state is the model's, and the names of the rest: what the optimizer keeps.
struct Sorted {
  frontend::Weights weights;
  std::vector<std::string> others;
};

// All that does not fit is named at once.
Sorted sort(const frontend::Weights& state, const std::map<std::string, TensorType>& known,
            const VerbOptions& options) {
  Sorted sorted;
  std::string wrong;
  for (const auto& [name, weight] : state) {
    const auto type = known.find(name);
    if (type == known.end()) {
      sorted.others.push_back(name);
    } else if (type->second != weight.type) {
      wrong += fmt::format("\n  '{}' is {}, the model has {}", name, to_string(weight.type), to_string(type->second));
    } else {
      sorted.weights.emplace(name, weight);
    }
  }
  if (!wrong.empty()) throw UsageError("--state '{}' is not of '{}':{}", options.trained_state, options.model, wrong);
  if (sorted.weights.empty())
    throw UsageError("--state '{}': none of its tensors is an initializer of '{}'; it has {}", options.trained_state,
                     options.model, sorted.others.empty() ? "none" : fmt::format("{}", fmt::join(sorted.others, ", ")));
  return sorted;
}

int export_weights(const GlobalOptions& global, const VerbOptions& options) {
  check_words(options);
  const std::shared_ptr<const frontend::Weights> state = driver::read_weights(options.trained_state);
  const frontend::EditableModel model = read_model(options);
  const std::map<std::string, TensorType> known = model.initializers();
  const Sorted sorted = sort(*state, known, options);
  const std::string bytes = model.with_weights(sorted.weights).bytes();
  format::write_file_atomically(options.exported, format::bytes_of(bytes));
  const auto names = mapped(sorted.weights, [](const auto& weight) { return weight.first; });
  if (global.json) {
    print_json("tilewright.export_weights.v1", {{"output", options.exported},
                                                {"bytes", bytes.size()},
                                                {"replaced", names},
                                                {"kept", known.size() - names.size()},
                                                {"ignored", sorted.others}});
    return kOk;
  }
  say(global, fmt::format("{} -> {}: {} of the model's {} replaced, the others are as they were", options.model,
                          options.exported, names.size(), count_text(std::ssize(known), "initializer")));
  if (!sorted.others.empty())
    say(global, fmt::format("not of the model, and left out: {}", fmt::join(sorted.others, ", ")));
  return kOk;
}

}  // namespace

void add_export_weights(Application& application) {
  add_verb(application, {"export-weights",
                         "Example: tilewright export-weights model.onnx --state trained.safetensors -o trained.onnx\n\n"
                         "Puts trained parameters back into the ONNX model. All else of it stays.",
                         "MODEL", "ONNX model that was trained", export_weights});
}

}  // namespace tw::cli
