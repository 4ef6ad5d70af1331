#include "support/option_table.h"

#include <algorithm>
#include <numeric>

namespace tw {
namespace {

// Insertions, deletions, replacements and swaps of neighbours that make `b` of `a`. Source: Damerau 1964, restricted to
// one edit a place.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  std::iota(cost[0].begin(), cost[0].end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    cost[i][0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

struct Kind {
  std::string_view name;
  std::string_view value;
};

// In the order of OptionKind.
constexpr Kind kKinds[] = {{"text", "TEXT"},     {"flag", ""},         {"count", ""},       {"integer", "N"},
                           {"number", "NUMBER"}, {"duration", "TIME"}, {"size", "SIZE"},    {"text", "TEXT"},
                           {"choice", ""},       {"file", "FILE"},     {"folder", "FOLDER"}};

constexpr size_t kLettersPerError = 3;  // a name of six letters may have two wrong ones

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

std::string suggestion(std::string_view word, std::span<const std::string_view> names, std::string_view prefix) {
  const auto far = [&](std::string_view name) { return distance(word, name); };
  const auto best = std::ranges::min_element(names, {}, far);
  if (best == names.end() || far(*best) * kLettersPerError > std::max(word.size(), kLettersPerError)) return "";
  return "; did you mean '" + std::string(prefix) + std::string(*best) + "'?";
}

}  // namespace tw
