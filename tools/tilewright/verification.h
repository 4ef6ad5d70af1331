// Checking a model against the reference, for the verbs that do it.
#pragma once
#include "tilewright/load.h"
#include "tilewright/values/inputs.h"

namespace tw::cli {

struct Verification {
  bool ok = true;
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();  // what was found, for --json
};

/// Runs the entries of `model` that `inputs` name, or else all of them on seeded values, and compares them with the f64
/// reference, group by group and end to end; says what it finds.
Verification verify_model(const GlobalOptions& global, const LoadedModel& model, InputOptions inputs,
                          const std::string& level);

}  // namespace tw::cli
