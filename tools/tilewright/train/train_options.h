// What the verb train is told, as options of a training step.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "frontend/onnx/import.h"
#include "tilewright/verb_options.h"

namespace tw::cli {

/// Throws UsageError where one option is for another choice of one that was made.
train::TrainOptions train_options(const VerbOptions& options);

/// The model with its dropouts and batch norms, one for each combination of input shapes.
std::vector<frontend::ImportResult> import_for_training(const std::string& model, driver::CompileOptions compile);

/// As --loss and --optimizer name them.
std::string_view name_of(train::Loss loss);
std::string_view name_of(train::Method method);

}  // namespace tw::cli
