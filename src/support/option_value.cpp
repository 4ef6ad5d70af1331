#include "support/option_value.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "support/error.h"
#include "support/text.h"

namespace tw {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr Unit kTimes[] = {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}, {"", 1}};
constexpr Unit kSizes[] = {{"", 1},     {"K", 1024.0}, {"M", 1048576.0}, {"G", 1073741824.0},
                           {"kB", 1e3}, {"MB", 1e6},   {"GB", 1e9}};
constexpr double kMaxBytes = 9e18;  // below 2^63

// A number with one of these units; NaN when the text is none.
double with_unit(std::string_view text, std::span<const Unit> units) {
  double value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, code] = std::from_chars(text.data(), last, value);
  const std::string_view unit(end, static_cast<size_t>(last - end));
  const auto found = std::ranges::find(units, unit, &Unit::name);
  return code != std::errc() || found == units.end() ? std::nan("") : value * found->factor;
}

}  // namespace

double parse_duration(const OptionText& text) {
  const double seconds = with_unit(text.text, kTimes);
  if (std::isfinite(seconds) && seconds > 0) return seconds;
  throw UsageError("{} '{}': expected a time such as 60s, 2m or 500ms", text.spelled, text.text);
}

int64_t parse_bytes(const OptionText& text) {
  const double bytes = with_unit(text.text, kSizes);
  if (bytes >= 0 && bytes < kMaxBytes) return static_cast<int64_t>(bytes);
  throw UsageError("{} '{}': expected a size such as 500M or 2G", text.spelled, text.text);
}

bool parse_flag(const OptionText& text) {
  constexpr std::array<std::string_view, 4> kYes = {"true", "1", "on", "yes"}, kNo = {"false", "0", "off", "no"};
  if (std::ranges::find(kYes, text.text) != kYes.end()) return true;
  if (std::ranges::find(kNo, text.text) != kNo.end()) return false;
  throw UsageError("{} '{}': expected true or false", text.spelled, text.text);
}

std::pair<std::string, std::string> parse_binding(const OptionText& text) {
  const size_t equals = text.text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw UsageError("{} '{}': expected NAME=VALUE", text.spelled, text.text);
  return {std::string(text.text.substr(0, equals)), std::string(text.text.substr(equals + 1))};
}

size_t parse_choice(const OptionRow& row, const OptionText& text) {
  const std::vector<std::string> names = split_list(row.choices, '|');
  const auto found = std::ranges::find(names, text.text);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  throw UsageError("{} '{}': expected {}", text.spelled, text.text, list_text(names, "or"));
}

std::vector<std::string> split_list(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t from = 0; from <= text.size();) {
    const size_t end = std::min(text.find(separator, from), text.size());
    parts.emplace_back(text.substr(from, end - from));
    from = end + 1;
  }
  return parts;
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? std::string_view("\\n") : std::string_view(&c, 1);
  }
  return out + '"';
}

void check_range(const OptionRow& row, const OptionText& text, double value) {
  if (value >= row.min && value <= row.max) return;
  if (std::isfinite(row.max)) {
    const std::string least = std::isfinite(row.min) ? fmt::format("{} to", row.min) : "at most";
    throw UsageError("{} {}: expected {} {}", text.spelled, text.text, least, row.max);
  }
  const std::string meaning = row.unset.empty() || row.min != 0 ? "" : fmt::format(" ({})", row.unset);
  throw UsageError("{} {}: expected {}{} or more", text.spelled, text.text, row.min, meaning);
}

void refuse_integer(const OptionText& text) {
  throw UsageError("{} '{}': expected a whole number", text.spelled, text.text);
}

void set_value(const OptionRow&, const OptionText& text, bool& field) { field = parse_flag(text); }

void set_value(const OptionRow& row, const OptionText& text, double& field) {
  constexpr Unit kNone[] = {{"", 1}};
  const double value = row.kind == OptionKind::kDuration ? parse_duration(text) : with_unit(text.text, kNone);
  if (!std::isfinite(value)) throw UsageError("{} '{}': expected a number", text.spelled, text.text);
  check_range(row, text, value);
  field = value;
}

void set_value(const OptionRow& row, const OptionText& text, std::string& field) {
  if (!row.choices.empty()) parse_choice(row, text);
  field = text.text;
}

void set_value(const OptionRow&, const OptionText& text, std::vector<std::string>& field) {
  field.emplace_back(text.text);
}

std::string print_value(const OptionRow& row, double field) {
  return fmt::format("{}{}", field, row.kind == OptionKind::kDuration ? "s" : "");
}

std::string print_value(const OptionRow&, const std::string& field) { return field; }

std::string print_value(const OptionRow&, const std::vector<std::string>& field) {
  std::string out;
  for (const std::string& value : field) out += (out.empty() ? "" : " ") + in_quotes(value);
  return out;
}

}  // namespace tw
