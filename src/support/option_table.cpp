#include "support/option_table.h"

#include <algorithm>

namespace tw {
namespace {

struct Kind {
  std::string_view name;
  std::string_view value;
};

// In the order of OptionKind.
constexpr Kind kKinds[] = {{"text", "TEXT"},     {"flag", ""},         {"count", ""},       {"integer", "N"},
                           {"number", "NUMBER"}, {"duration", "TIME"}, {"size", "SIZE"},    {"text", "TEXT"},
                           {"choice", ""},       {"file", "FILE"},     {"folder", "FOLDER"}};

}  // namespace

bool is_for(const OptionRow& row, std::string_view verb) {
  return std::ranges::any_of(split_list(row.verbs, ' '), [&](const std::string& name) {
    return verb == name || (verb.starts_with(name) && verb.substr(name.size()).starts_with('/'));
  });
}

std::string_view kind_name(const OptionRow& row) { return kKinds[static_cast<size_t>(row.kind)].name; }

std::string value_name(const OptionRow& row) {
  return row.choices.empty() ? std::string(kKinds[static_cast<size_t>(row.kind)].value) : std::string(row.choices);
}

std::string default_text(const OptionRow& row, const std::string& initial) {
  if (!row.unset.empty()) return std::string(row.unset);
  return row.kind == OptionKind::kFlag || row.kind == OptionKind::kCount ? "" : initial;
}

}  // namespace tw
