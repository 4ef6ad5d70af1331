#include "support/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace tw {
namespace {

constexpr double kRoundsUp = 999.5;  // and more has four digits before the point when three are kept

// `value` in the largest of these units, each 1000 of the one before, in which it is at least 1.
std::string in_units(double value, std::span<const std::string_view> units) {
  size_t unit = 0;
  for (; value >= kRoundsUp && unit + 1 < units.size(); ++unit) value /= 1000;
  return value >= kRoundsUp ? fmt::format("{:.0f} {}", value, units[unit])
                            : fmt::format("{:.3g} {}", value, units[unit]);
}

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

// The byte at which character `column` begins.
size_t byte_of(std::string_view text, size_t column) {
  size_t at = 0;
  for (; at < text.size(); ++at) {
    if (begins_character(text[at]) && column-- == 0) break;
  }
  return at;
}

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

constexpr size_t kLettersPerError = 3;  // a name of six letters may have two wrong ones

}  // namespace

std::string size_text(double bytes) {
  if (bytes < kRoundsUp) return count_text(static_cast<int64_t>(bytes), "byte");
  constexpr std::array<std::string_view, 4> kUnits = {"kB", "MB", "GB", "TB"};
  return in_units(bytes / 1e3, kUnits);
}

std::string time_text(double seconds) {
  constexpr std::array<std::string_view, 3> kUnits = {"us", "ms", "s"};
  constexpr int64_t kMinute = 60, kHour = 3600;
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole >= kHour) return fmt::format("{} h {} min", whole / kHour, whole % kHour / kMinute);
  if (whole >= 2 * kMinute) return fmt::format("{} min {} s", whole / kMinute, whole % kMinute);
  return in_units(seconds * 1e6, kUnits);
}

std::string count_text(int64_t count, std::string_view noun) {
  if (count == 1) return fmt::format("1 {}", noun);
  const auto ends_in = [&](std::string_view end) { return noun.ends_with(end); };
  const bool is_y = noun.ends_with('y') && noun.size() > 1 &&
                    std::string_view("aeiou").find(noun[noun.size() - 2]) == std::string_view::npos;
  if (is_y) return fmt::format("{} {}ies", count, noun.substr(0, noun.size() - 1));
  const bool hisses = ends_in("s") || ends_in("x") || ends_in("ch") || ends_in("sh");
  return fmt::format("{} {}{}", count, noun, hisses ? "es" : "s");
}

std::string list_text(std::span<const std::string> names, std::string_view last) {
  if (names.size() < 2) return names.empty() ? "" : names.front();
  return fmt::format("{} {} {}", fmt::join(names.first(names.size() - 1), ", "), last, names.back());
}

double rounded(double value) { return std::isfinite(value) ? std::stod(fmt::format("{:.6g}", value)) : value; }

size_t columns_of(std::string_view text) { return static_cast<size_t>(std::ranges::count_if(text, begins_character)); }

std::string shortened(std::string_view text, size_t columns) {
  constexpr std::string_view kGap = "..";
  const size_t all = columns_of(text);
  if (all <= columns) return std::string(text);
  if (columns <= kGap.size()) return std::string(text.substr(0, byte_of(text, columns)));
  const size_t kept = columns - kGap.size(), front = kept / 2;
  return fmt::format("{}{}{}", text.substr(0, byte_of(text, front)), kGap,
                     text.substr(byte_of(text, all - (kept - front))));
}

std::string suggestion(std::string_view word, std::span<const std::string_view> names, std::string_view prefix) {
  const auto far = [&](std::string_view name) { return distance(word, name); };
  // Of several that are as near the one that only goes on.
  const auto order = [&](std::string_view name) { return std::pair(far(name), !name.starts_with(word)); };
  const auto best = std::ranges::min_element(names, {}, order);
  if (best == names.end() || far(*best) >= word.size()) return "";
  if (far(*best) * kLettersPerError > std::max(word.size(), kLettersPerError)) return "";
  return fmt::format("; did you mean '{}{}'?", prefix, *best);
}

std::string suggestion(std::string_view word, const std::vector<std::string>& names, std::string_view prefix) {
  return suggestion(word, std::vector<std::string_view>(names.begin(), names.end()), prefix);
}

std::string suggestion_or_all(std::string_view word, const std::vector<std::string>& names) {
  const std::string meant = suggestion(word, names);
  if (!meant.empty()) return meant;
  if (names.empty()) return "; there is none";
  return fmt::format("; there {} {}", names.size() == 1 ? "is only" : "are", list_text(names));
}

}  // namespace tw
