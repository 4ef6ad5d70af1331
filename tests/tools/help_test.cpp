// What -h prints: lines that fit the terminal, options in groups, and one line for each verb.
#include "tilewright/help.h"

#include <gtest/gtest.h>

#include "support/option_value.h"
#include "support/text.h"
#include "tilewright/application.h"
#include "tilewright/terminal.h"
#include "tilewright/verb.h"

namespace tw::cli {
namespace {

class Help : public ::testing::Test {
 protected:
  Help() {
    application_.app.name("tilewright");
    add_global_options(application_);
    add_verbs(application_);
  }
  const CLI::App& verb(const std::string& name) { return *application_.app.get_subcommand(name); }

  Application application_;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// All verbs and their actions.
std::vector<const CLI::App*> all_of(const CLI::App& app) {
  std::vector<const CLI::App*> all = {&app};
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App* v) { return !v->get_group().empty(); })) {
    for (const CLI::App* inner : all_of(*verb)) all.push_back(inner);
  }
  return all;
}

TEST_F(Help, FitsTheTerminal) {
  for (const CLI::App* app : all_of(application_.app)) {
    for (const size_t columns : {60u, 80u, 100u}) {
      for (const std::string& line : split_list(help_text(*app, columns), '\n')) {
        // An example is one command, and a value's words one word.
        if (line.starts_with("Example: ") || !has(line.substr(std::min<size_t>(line.size(), columns)), " ")) continue;
        EXPECT_LE(columns_of(line), columns) << line;
      }
    }
  }
}

TEST_F(Help, EveryVerbHasALineOfItsOwn) {
  for (const CLI::App* app : std::initializer_list<const CLI::App*>{&application_.app, &verb("cache"), &verb("db")}) {
    const std::string text = short_help(*app, 80);
    const auto verbs = app->get_subcommands([](const CLI::App* v) { return !v->get_group().empty(); });
    for (const CLI::App* v : verbs) EXPECT_TRUE(has(text, "\n  " + v->get_name() + " ")) << text;
    const std::vector<std::string> lines = split_list(text, '\n');
    EXPECT_EQ(lines.size(), verbs.size() + 5) << text;
    for (const std::string& line : lines) EXPECT_LE(columns_of(line), 80u) << line;
  }
  EXPECT_FALSE(has(short_help(application_.app, 80), "worker"));
}

TEST_F(Help, OptionsAreInGroups) {
  const std::string text = help_text(verb("bench"), 80);
  const size_t input = text.find("\nInput:\n"), measuring = text.find("\nMeasuring:\n");
  const size_t output = text.find("\nOutput:\n");
  ASSERT_TRUE(input != std::string::npos && measuring != std::string::npos && output != std::string::npos) << text;
  EXPECT_GT(text.find("  --duration "), measuring);
  EXPECT_TRUE(has(text, "tilewright compile -h"));
  EXPECT_FALSE(has(text, "--precision")) << "options of compiling are described once";
  EXPECT_TRUE(has(help_text(verb("compile"), 80), "--precision strict|default|fast"));
}

TEST(Wrapped, LinesAreFilledAndIndented) {
  EXPECT_EQ(wrapped("one two three", 9, 2), "one two\n  three");
  EXPECT_EQ(wrapped("one two three", 7, 2), "one\n  two\n  three");
  EXPECT_EQ(wrapped("abcdefghij k", 4, 0), "abcdefghij\nk");
  EXPECT_EQ(wrapped("one\ntwo", 80, 1), "one\n two");
  EXPECT_EQ(wrapped("", 80, 1), "");
}

}  // namespace
}  // namespace tw::cli
