// The table of the compiler's options. The command line, --config, the public interfaces, the key of the cache and
// docs/reference/options.md come from it: whoever adds an option adds a row.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "driver/options.h"
#include "support/option_table.h"

namespace tw::driver {

/// All rows. Those of one option are unique; verbs of the command that compile take nearly all of them.
std::span<const Option<CompileOptions>> compile_options();

/// Sets the option `name` from text: of what can be given several times, one more. UsageError for an unknown name, with
/// the one that was probably meant, and for a malformed text.
void set_option(CompileOptions& options, std::string_view name, const OptionText& text);

/// What all options that are part of a key hold, as text: equal for equal values only.
std::string key_text(const CompileOptions& options);
/// The option that keeps the cache of artefacts from answering; null: there is none.
const OptionRow* kept_from_cache(const CompileOptions& options);

}  // namespace tw::driver
