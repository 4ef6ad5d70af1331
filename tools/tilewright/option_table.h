// The table of the command's own options; those of compiling are in driver/option_table.h.
#pragma once
#include <span>
#include <string_view>

#include "support/option_table.h"
#include "tilewright/command.h"
#include "tilewright/verb_options.h"

namespace tw::cli {

/// Before or after every verb.
std::span<const Option<GlobalOptions>> global_options();
/// Of the verbs that each row names.
std::span<const Option<VerbOptions>> verb_options();

/// A variable of the environment that no option stands for.
struct Variable {
  std::string_view name;
  std::string_view help;
};
std::span<const Variable> variables();

}  // namespace tw::cli
