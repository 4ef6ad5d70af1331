// What the verb train is told, as options of a training step.
#pragma once
#include <string_view>

#include "tilewright/verb_options.h"

namespace tw::cli {

/// Throws UsageError where one option is for another choice of one that was made.
train::TrainOptions train_options(const VerbOptions& options);

/// As --loss and --optimizer name them.
std::string_view name_of(train::Loss loss);
std::string_view name_of(train::Method method);

}  // namespace tw::cli
