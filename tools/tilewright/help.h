// What -h prints: an example, a sentence, options in groups, all within the terminal's width.
#pragma once
#include <string>

namespace CLI {
class App;
}

namespace tw::cli {

/// The help of the command or a verb in lines of at most `columns` columns.
std::string help_text(const CLI::App& app, size_t columns);

/// The verbs of the command, or the actions of a verb, with a line each: for one who gave none.
std::string short_help(const CLI::App& app, size_t columns);

/// "tilewright cache prune".
std::string path_of(const CLI::App& app);

/// Makes -h of all verbs print help_text, as wide as standard output is.
void use_help_text(CLI::App& app);

}  // namespace tw::cli
