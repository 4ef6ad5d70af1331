#include "tilewright/verb.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <vector>

#include "driver/option_table.h"
#include "support/error.h"
#include "support/join.h"
#include "tilewright/application.h"
#include "tilewright/config.h"
#include "tilewright/help.h"
#include "tilewright/option_table.h"
#include "tilewright/terminal.h"
#include "tilewright/values/arrays.h"

namespace tw::cli {
namespace {

// A row that is an option of a verb, and what was said of it. The texts are read when the verb runs, so that all
// errors are told in one way.
struct Added {
  const OptionRow* row;
  CLI::Option* option;
};

std::string flag_of(const OptionRow& row) { return "--" + std::string(row.name); }

CLI::Option* add_row(CLI::App& app, const OptionRow& row, const std::string& initial) {
  const auto taken = [](const CLI::results_t&) { return true; };
  const std::string names = (row.letter != 0 ? "-" + std::string(1, row.letter) + "," : "") + flag_of(row);
  const std::string without = default_text(row, initial);
  const std::string variable = row.variable.empty() ? "" : fmt::format(" (or ${})", row.variable);
  const std::string help =
      fmt::format("{}{}{}{}", row.help, row.is_repeatable ? " (repeatable)" : "", variable,
                  without.empty() || without == "none" ? "" : fmt::format(" (default: {})", without));
  CLI::Option* option = nullptr;
  if (row.kind == OptionKind::kFlag || row.kind == OptionKind::kCount) {
    option = app.add_flag_function(
        names, [](int64_t) {}, help);
  } else {
    option = app.add_option(names, taken, help)->type_name(value_name(row));
  }
  if (row.is_repeatable) option->expected(CLI::detail::expected_max_vector_size);
  if (!row.variable.empty()) option->envname(std::string(row.variable));
  if (!row.group.empty()) option->group(std::string(row.group));
  return option;
}

template <typename Options>
std::vector<Added> add_rows(CLI::App& app, std::span<const Option<Options>> rows, const std::string& verb) {
  const Options initial;
  std::vector<Added> added;
  for (const Option<Options>& row : rows) {
    if (is_for(row, verb)) added.push_back({&row, add_row(app, row, row.print_of(initial))});
  }
  return added;
}

template <typename Options>
void read_rows(const std::vector<Added>& added, Options& options) {
  for (const auto& [row, option] : added) {
    const std::string spelled = flag_of(*row);
    for (const std::string& text : option->results())
      static_cast<const Option<Options>*>(row)->set_in(options, {text, spelled});
  }
}

bool is_in_environment(const OptionRow& row) {
  return !row.variable.empty() && std::getenv(std::string(row.variable).c_str()) != nullptr;
}

// The first of these that was given, other than by the environment.
std::string first_given(const std::vector<Added>& added) {
  for (const auto& [row, option] : added) {
    if (option->count() > 0 && !is_in_environment(*row)) return flag_of(*row);
  }
  return "";
}

std::vector<Added> of_group(const std::vector<Added>& added, std::string_view group) {
  std::vector<Added> found;
  std::ranges::copy_if(added, std::back_inserter(found), [&](const Added& a) { return a.row->group == group; });
  return found;
}

// Verbs that compile first have the options of compiling, which are described once, under `compile`.
void describe_elsewhere(CLI::App& app, const std::vector<Added>& compiling) {
  for (const Added& a : compiling) a.option->group("");
  const auto is_target = [](const Added& a) { return a.row->name == "target"; };
  if (std::ranges::none_of(compiling, is_target)) return;  // it reads models, or nothing but artefacts
  app.footer("If MODEL is an ONNX model, it is compiled first. The options for that:\ntilewright compile -h");
}

// The verb that was chosen, or its action.
const CLI::App* chosen(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

// What to say of a command line that CLI11 refuses.
std::string failure_text(const CLI::App* app, const CLI::Error& error) {
  const CLI::App* const verb = chosen(app);
  if (error.get_name() == "RequiredError" && verb->get_require_subcommand_min() > 0) {
    const std::vector<std::string> words = app->remaining(true);
    const auto word = std::ranges::find_if(words, [](const std::string& w) { return !w.starts_with("-"); });
    if (word == words.end()) return short_help(*verb, terminal_columns(STDERR_FILENO));
    const auto actions = mapped(verb->get_subcommands({}), [](const CLI::App* a) { return a->get_name(); });
    return fmt::format("tilewright: usage: '{}' has no action '{}'{}\n", verb->get_name(), *word,
                       suggestion_or_all(*word, actions));
  }
  return fmt::format("tilewright: usage: {}; for help: {} -h\n", error.what(), path_of(*verb));
}

}  // namespace

void add_verb(Application& application, const Verb& verb) {
  const size_t slash = verb.name.find('/');
  CLI::App* parent =
      slash == std::string::npos ? &application.app : application.app.get_subcommand(verb.name.substr(0, slash));
  CLI::App* app = parent->add_subcommand(verb.name.substr(slash + 1), verb.help);
  const auto word = std::make_shared<std::string>();
  if (!verb.word.empty()) app->add_option(verb.word, *word, verb.word_help)->required();
  const std::vector<Added> own = add_rows(*app, verb_options(), verb.name);
  const std::vector<Added> compiling = add_rows(*app, driver::compile_options(), verb.name);
  if (verb.word == "MODEL" && verb.name != "compile") describe_elsewhere(*app, compiling);
  if (!verb.is_listed) app->group("");
  app->callback([&application, word, own, compiling, run = verb.run] {
    application.run = [&application, word, own, compiling, run] {
      VerbOptions options;
      options.model = *word;
      options.compile.read_array = [](const std::string& file) { return artefact::to_reference(read_array(file)); };
      read_rows(own, options);
      read_rows(compiling, options.compile);
      options.compile_option = first_given(compiling);
      options.training_option = first_given(of_group(own, "Training"));
      return run(application.global, options);
    };
  });
}

void add_group(Application& application, const std::string& name, const std::string& help) {
  CLI::App* app = application.app.add_subcommand(name, help);
  app->require_subcommand(1);
}

std::string unknown_words(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining(true);
  const auto option = std::ranges::find_if(words, [](const std::string& w) { return w.starts_with("--"); });
  if (option == words.end()) return fmt::format("unexpected: {}", fmt::join(words, " "));
  std::vector<std::string> names;
  for (const CLI::App* level : {chosen(&app), &app}) {
    for (const CLI::Option* o : level->get_options()) std::ranges::copy(o->get_lnames(), std::back_inserter(names));
  }
  const std::string name = option->substr(0, option->find('='));
  const std::vector<std::string_view> known(names.begin(), names.end());
  return fmt::format("unknown option '{}'{}", name, suggestion(name.substr(2), known, "--"));
}

std::function<void()> add_global_options(Application& application) {
  application.app.failure_message(failure_text);
  std::vector<Added> added;
  const GlobalOptions initial;
  for (const Option<GlobalOptions>& row : global_options()) {
    if (row.name == "config") {
      application.app.set_config(flag_of(row), "", std::string(row.help))
          ->type_name("FILE")
          ->check(CLI::ExistingFile.description(""));
      application.app.config_formatter(std::make_shared<JsonConfig>(application.app));
    } else {
      added.push_back({&row, add_row(application.app, row, row.print_of(initial))});
    }
  }
  return [&application, added] { read_rows(added, application.global); };
}

}  // namespace tw::cli
