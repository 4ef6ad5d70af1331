// How a verb joins the command: its help, its word and the options that the tables have for it.
#pragma once
#include <functional>
#include <string>

#include "tilewright/command.h"
#include "tilewright/verb_options.h"

namespace CLI {
class App;
}

namespace tw::cli {

struct Verb {
  std::string name;  // "run"; "cache/prune": an action of the verb "cache", which is there already
  std::string help;  // begins with an example
  std::string word;  // "MODEL": what stands after the verb, read into VerbOptions::model; empty: nothing
  std::string word_help;
  std::function<int(const GlobalOptions&, const VerbOptions&)> run;
  bool is_listed = true;  // in the help
};
void add_verb(Application& application, const Verb& verb);

/// A verb that has actions.
void add_group(Application& application, const std::string& name, const std::string& help);

/// Adds the options that stand before or after every verb, and says what a wrong command line is told. What is returned
/// reads the options, once all is parsed.
std::function<void()> add_global_options(Application& application);

/// What to say of words that are no options of the verb that was chosen: which one may have been meant.
std::string unknown_words(const CLI::App& app);

}  // namespace tw::cli
