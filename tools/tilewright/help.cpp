#include "tilewright/help.h"

#include <unistd.h>

#include <algorithm>

#include "support/text.h"
#include "tilewright/application.h"
#include "tilewright/terminal.h"

namespace tw::cli {
namespace {

constexpr size_t kIndent = 2;
constexpr size_t kMaxColumns = 100;  // longer lines are hard to read
constexpr size_t kMaxFirst = 28;     // of the column of names; a longer name has a line of its own
constexpr std::string_view kExample = "Example: ";

// A description in its parts: "Example: COMMAND\n\nSentence. More sentences."
struct Description {
  std::string example, text;
  std::string sentence() const { return text.substr(0, std::min(text.find('\n'), text.find(". "))); }
};

Description description_of(const CLI::App& app) {
  const std::string all = app.get_description();
  const size_t gap = all.find("\n\n");
  if (gap == std::string::npos || !all.starts_with(kExample)) return {"", all};
  return {all.substr(kExample.size(), gap - kExample.size()), all.substr(gap + 2)};
}

struct Row {
  std::string name, text;
};

// Two columns: names, and what they mean.
std::string table(const std::vector<Row>& rows, size_t columns) {
  size_t first = 0;
  for (const Row& row : rows) {
    if (columns_of(row.name) <= kMaxFirst) first = std::max(first, columns_of(row.name));
  }
  const size_t at = kIndent + first + kIndent;
  std::string out;
  for (const Row& row : rows) {
    const size_t used = kIndent + columns_of(row.name);
    out += std::string(kIndent, ' ') + row.name;
    out += used + kIndent > at ? "\n" + std::string(at, ' ') : std::string(at - used, ' ');
    out += wrapped(row.text, columns, at) + "\n";
  }
  return out;
}

std::vector<const CLI::App*> visible_verbs(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* verb) { return !verb->get_group().empty(); });
}

std::string verb_table(const CLI::App& app, size_t columns) {
  std::vector<Row> rows;
  for (const CLI::App* verb : visible_verbs(app)) {
    const std::string sentence = description_of(*verb).sentence();
    rows.push_back({verb->get_name(), sentence.ends_with('.') ? sentence.substr(0, sentence.size() - 1) : sentence});
  }
  return table(rows, columns);
}

Row row_of(const CLI::Option& option) {
  std::string name = option.get_positional() ? option.get_name(true, false) : option.get_name(false, true);
  if (const size_t comma = name.find(','); comma != std::string::npos) name.insert(comma + 1, " ");
  const bool takes_value = !option.get_positional() && option.get_type_size() != 0 && !option.get_type_name().empty();
  if (takes_value) name += " " + option.get_type_name();
  return {name, option.get_description()};
}

std::string option_tables(const CLI::App& app, size_t columns) {
  std::string out;
  for (const std::string& group : app.get_groups()) {
    std::vector<Row> rows;
    for (const CLI::Option* option :
         app.get_options([&](const CLI::Option* o) { return o->get_group() == group && o->nonpositional(); }))
      rows.push_back(row_of(*option));
    if (!group.empty() && !rows.empty()) out += fmt::format("\n{}:\n{}", group, table(rows, columns));
  }
  return out;
}

std::string usage(const CLI::App& app) {
  std::string out = "Usage: " + path_of(app);
  if (!visible_verbs(app).empty()) out += app.get_parent() == nullptr ? " VERB" : " ACTION";
  for (const CLI::Option* option : app.get_options([](const CLI::Option* o) { return o->get_positional(); }))
    out += " " + option->get_name(true, false);
  return out + " [options]\n";
}

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    return help_text(*app, std::min(terminal_columns(STDOUT_FILENO), kMaxColumns));
  }
};

}  // namespace

std::string path_of(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : path_of(*app.get_parent()) + " " + app.get_name();
}

std::string help_text(const CLI::App& app, size_t columns) {
  const auto [example, text] = description_of(app);
  std::string out;
  if (!example.empty()) out += fmt::format("Example: {}\n\n", example);
  if (!text.empty()) out += wrapped(text, columns, 0) + "\n\n";
  out += usage(app);
  std::vector<Row> words;
  for (const CLI::Option* option : app.get_options([](const CLI::Option* o) { return o->get_positional(); }))
    words.push_back(row_of(*option));
  if (!words.empty()) out += "\n" + table(words, columns);
  if (!visible_verbs(app).empty())
    out += fmt::format("\n{}:\n{}", app.get_parent() == nullptr ? "Verbs" : "Actions", verb_table(app, columns));
  out += option_tables(app, columns);
  if (!app.get_footer().empty()) out += "\n" + wrapped(app.get_footer(), columns, 0) + "\n";
  return out;
}

std::string short_help(const CLI::App& app, size_t columns) {
  const std::string path = path_of(app);
  return fmt::format("{}\n{}\nMore: {} {} -h\n", usage(app), verb_table(app, std::min(columns, kMaxColumns)), path,
                     app.get_parent() == nullptr ? "VERB" : "ACTION");
}

void use_help_text(CLI::App& app) {
  const auto formatter = std::make_shared<HelpFormatter>();
  app.formatter(formatter);
  for (CLI::App* verb : app.get_subcommands({})) use_help_text(*verb);
}

}  // namespace tw::cli
