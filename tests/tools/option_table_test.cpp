// The command's own options: one row for each verb and name, each bound to a field of its own.
#include "tilewright/option_table.h"

#include <gtest/gtest.h>

#include <set>

#include "driver/option_table.h"
#include "tilewright/application.h"
#include "tilewright/verb.h"

namespace tw::cli {
namespace {

// "run", "cache/prune": of the command as it is. That it can be made at all shows that no verb has an option twice.
std::vector<std::string> all_verbs() {
  Application application;
  add_global_options(application);
  add_verbs(application);
  std::vector<std::string> names;
  for (const CLI::App* verb : application.app.get_subcommands({})) {
    names.push_back(verb->get_name());
    for (const CLI::App* action : verb->get_subcommands({}))
      names.push_back(verb->get_name() + "/" + action->get_name());
  }
  return names;
}

template <typename Options>
void expect_whole(std::span<const Option<Options>> rows) {
  for (const Option<Options>& row : rows) {
    SCOPED_TRACE(row.name);
    EXPECT_FALSE(row.help.empty());
    EXPECT_EQ(row.key, OptionKey::kNone);
    const bool is_flag = row.kind == OptionKind::kFlag || row.kind == OptionKind::kCount;
    EXPECT_TRUE(is_flag || !row.example.empty());
    Options changed;
    row.set_in(changed, {is_flag ? "true" : row.example, row.name});
    const Options initial;
    for (const Option<Options>& other : rows) {
      EXPECT_EQ(&other == &row, other.print_of(changed) != other.print_of(initial)) << other.name;
    }
  }
}

TEST(OptionTable, RowsAreWholeAndHaveFieldsOfTheirOwn) {
  expect_whole(global_options());
  expect_whole(verb_options());
}

TEST(OptionTable, NoVerbHasAnOptionTwice) {
  for (const std::string& verb : all_verbs()) {
    std::set<std::string> names = {"help", "h", "version"};
    const auto add = [&](const OptionRow& row) {
      EXPECT_TRUE(names.insert(std::string(row.name)).second) << verb << " --" << row.name;
      if (row.letter == 0) return;
      EXPECT_TRUE(names.insert(std::string(1, row.letter)).second) << verb << " -" << row.letter;
    };
    for (const OptionRow& row : global_options()) add(row);
    for (const OptionRow& row : verb_options()) {
      if (is_for(row, verb)) add(row);
    }
    for (const OptionRow& row : driver::compile_options()) {
      if (is_for(row, verb)) add(row);
    }
  }
}

TEST(OptionTable, EachRowIsForAVerbThatThereIs) {
  for (const OptionRow& row : verb_options()) {
    for (const std::string& named : split_list(row.verbs, ' ')) {
      const bool known = std::ranges::any_of(
          all_verbs(), [&](const std::string& verb) { return verb == named || verb.starts_with(named + "/"); });
      EXPECT_TRUE(known) << row.name << ": " << named;
    }
  }
}

}  // namespace
}  // namespace tw::cli
