// One verb, its options, its exit code.
#include "tilewright/command_main.h"

#include <algorithm>

#include "support/error.h"
#include "support/option_table.h"
#include "tilewright/application.h"
#include "tilewright/verb.h"

namespace {

// No word is a verb: says which one looks as if it should be, and which there are.
int refuse_verb(const CLI::App& app, const std::vector<std::string>& words) {
  std::string known;
  std::vector<std::string_view> names;
  for (const CLI::App* verb : app.get_subcommands({})) {
    if (verb->get_group().empty()) continue;
    known += " " + verb->get_name();
    names.push_back(verb->get_name());
  }
  const auto word = std::ranges::find_if(words, [](const std::string& w) { return !w.starts_with("-"); });
  if (word == words.end()) {
    tw::cli::print_error("tilewright: usage: a verb is missing; there are{}\n", known);
  } else {
    const std::string meant = tw::suggestion(*word, names);
    tw::cli::print_error("tilewright: usage: there is no verb '{}'{}\n", *word,
                         meant.empty() ? "; there are" + known : meant);
  }
  return tw::cli::kUsage;
}

}  // namespace

int tw_command_main(int argc, char** argv) {
  using namespace tw::cli;
  prepare_streams();
  Application application;
  CLI::App& app = application.app;
  const std::function<void()> read_global_options = set_up(application);
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    app.parse(argc, argv);
  } catch (const CLI::RequiredError& error) {
    if (!app.get_subcommands().empty() || words.empty()) return app.exit(error) == 0 ? kOk : kUsage;
    return refuse_verb(app, words);
  } catch (const CLI::ExtrasError&) {
    print_error("tilewright: usage: {}\n", unknown_words(app));
    return kUsage;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? guarded(words, [] { return kOk; }) : kUsage;  // help that is lost is an error
  }
  return guarded(words, [&] {
    read_global_options();
    return application.run();
  });
}
