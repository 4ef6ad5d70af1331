// tilewright options: all options and what becomes of them, as the Markdown of docs/reference/options.md or as JSON.
// Not for people, who have the page.
#include "driver/option_table.h"
#include "tilewright/option_table.h"
#include "tilewright/verb.h"

namespace tw::cli {
namespace {

constexpr std::string_view kKeys[] = {"", "part", "no entry", "indifferent"};  // in the order of OptionKey

// A row, with what holds when the option is not given.
struct Described {
  const OptionRow* row;
  std::string without;
};

template <typename Options>
std::vector<Described> described(std::span<const Option<Options>> rows) {
  const Options initial;
  std::vector<Described> out;
  for (const Option<Options>& row : rows) out.push_back({&row, default_text(row, row.print_of(initial))});
  return out;
}

// Text in a cell of a table.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string signature(const OptionRow& row) {
  const std::string letter = row.letter == 0 ? "" : fmt::format("-{}, ", row.letter);
  const std::string value = value_name(row);
  return cell(fmt::format("`{}--{}{}{}`", letter, row.name, value.empty() ? "" : " ", value));
}

std::string meaning(const OptionRow& row) {
  std::string text = cell(row.help);
  if (row.is_repeatable) text += " (repeatable)";
  if (!row.example.empty()) text += fmt::format(". Example: `{}`", cell(row.example));
  if (row.key != OptionKey::kNone && row.verbs != driver::compile_options().front().verbs)
    text += fmt::format(". Of: {}", row.verbs);
  if (!row.variable.empty()) text += fmt::format(". Else `${}`", row.variable);
  return text;
}

std::string key(const OptionRow& row) {
  if (row.key == OptionKey::kPart) return "yes";
  return fmt::format("{}: {}", row.key == OptionKey::kNoEntry ? "not asked" : "no", row.why);
}

std::string verbs(const OptionRow& row) {
  std::string text(row.verbs);
  std::ranges::replace(text, '/', ' ');
  return text;
}

void print_page() {
  fmt::print(
      "# Options\n\n<!-- Written by scripts/reference_pages.py from the tables of options; do not edit. -->\n\n"
      "Each option has one name: `--NAME` on the command line, `\"NAME\"` in a file of `--config`, and\n"
      "`options_set(options, \"NAME\", ..)` in C where it is an option of compiling. The command line stands above "
      "the\n"
      "environment, the environment above the file.\n\n## Every verb\n\n| option | without it | |\n|---|---|---|\n");
  for (const auto& [row, without] : described(global_options()))
    fmt::print("| {} | {} | {} |\n", signature(*row), cell(without), meaning(*row));
  fmt::print(
      "\n## Compiling\n\nOf `compile`, `train` and `advise`, and of `run`, `bench`, `verify`, `explain` and `analyze` "
      "where "
      "MODEL is an "
      "ONNX "
      "model. *Key*: whether\nanother value is another entry of the cache of artefacts; where the cache is not asked "
      "with "
      "an option, or does not depend\non it, the reason.\n\n| option | "
      "without it | key | |\n|---|---|---|---|\n");
  for (const auto& [row, without] : described(driver::compile_options()))
    fmt::print("| {} | {} | {} | {} |\n", signature(*row), cell(without), key(*row), meaning(*row));
  fmt::print("\n## Verbs\n\n| option | of | without it | |\n|---|---|---|---|\n");
  for (const auto& [row, without] : described(verb_options()))
    fmt::print("| {} | {} | {} | {} |\n", signature(*row), verbs(*row), cell(without), meaning(*row));
  fmt::print("\n## Environment\n\nBesides those that stand for an option:\n\n| variable | |\n|---|---|\n");
  for (const Variable& v : variables()) fmt::print("| `{}` | {} |\n", v.name, cell(v.help));
}

nlohmann::ordered_json to_json(const std::vector<Described>& rows) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const auto& [row, without] : rows) {
    out.push_back({{"name", row->name},
                   {"kind", kind_name(*row)},
                   {"repeatable", row->is_repeatable},
                   {"choices", row->choices},
                   {"default", without},
                   {"example", row->example},
                   {"variable", row->variable},
                   {"verbs", row->verbs},
                   {"key", kKeys[static_cast<size_t>(row->key)]},
                   {"why", row->why},
                   {"help", row->help}});
  }
  return out;
}

int options_page(const GlobalOptions& global, const VerbOptions&) {
  if (!global.json) {
    print_page();
    return kOk;
  }
  nlohmann::ordered_json environment = nlohmann::ordered_json::array();
  for (const Variable& v : variables()) environment.push_back({{"name", v.name}, {"help", v.help}});
  print_json("tilewright.options.v1", {{"global", to_json(described(global_options()))},
                                       {"compile", to_json(described(driver::compile_options()))},
                                       {"verbs", to_json(described(verb_options()))},
                                       {"environment", environment}});
  return kOk;
}

}  // namespace

void add_options_page(Application& application) {
  add_verb(application, {"options", "Example: tilewright options\n\nAll options.", "", "", options_page, false});
}

}  // namespace tw::cli
