#include "schedule/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include "support/error.h"

namespace tw::schedule {
namespace {

constexpr std::array<std::string_view, 19> kNames = {"split",       "reorder",  "fuse",      "vectorize",  "unroll",
                                                     "threads",     "parallel", "inline",    "compute_at", "cache_read",
                                                     "cache_write", "rfactor",  "pipeline",  "tensorize",  "prefetch",
                                                     "layout",      "matrices", "implement", "branch"};

std::string to_string(const Primitive& p) {
  std::string text = fmt::format("{} {}", kNames[static_cast<size_t>(p.kind)], p.stage);
  for (const std::string& loop : p.loops) text += " " + loop;
  if (!p.factors.empty()) text += fmt::format(" [{}]", fmt::join(p.factors, ","));
  if (!p.option.empty()) text += fmt::format(" \"{}\"", p.option);
  return text;
}

std::vector<int64_t> parse_factors(std::string_view text, int line) {
  std::vector<int64_t> factors;
  while (!text.empty()) {
    int64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc()) throw UserError(fmt::format("schedule line {}: '{}' is no list of numbers", line, text));
    factors.push_back(value);
    text.remove_prefix(end - text.data());
    if (!text.empty() && text.front() == ',') text.remove_prefix(1);
  }
  return factors;
}

Primitive parse_line(const std::string& line, int number) {
  std::istringstream words(line);
  std::string word;
  words >> word;
  size_t kind = 0;
  while (kind < kNames.size() && kNames[kind] != word) ++kind;
  if (kind == kNames.size()) throw UserError(fmt::format("schedule line {}: unknown primitive '{}'", number, word));
  Primitive p{static_cast<PrimitiveKind>(kind), ""};
  if (!(words >> p.stage)) throw UserError(fmt::format("schedule line {}: '{}' names no stage", number, word));
  while (words >> std::ws && words.peek() != EOF) {
    if (words.peek() == '"') {
      words.get();
      std::getline(words, p.option, '"');
      continue;
    }
    words >> word;
    if (word.front() == '[' && word.back() == ']') {
      p.factors = parse_factors(std::string_view(word).substr(1, word.size() - 2), number);
    } else {
      p.loops.push_back(word);
    }
  }
  return p;
}

}  // namespace

bool gathers(const Schedule& schedule) {
  return std::ranges::any_of(schedule.primitives(),
                             [](const Primitive& p) { return p.kind == PrimitiveKind::kMatrices; });
}

std::string to_string(const Schedule& schedule) {
  std::string text;
  for (const Primitive& p : schedule.primitives()) text += to_string(p) + "\n";
  return text;
}

Schedule parse_schedule(std::string_view text) {
  Schedule schedule;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(' ') == std::string::npos || line[line.find_first_not_of(' ')] == '#') continue;
    schedule.add(parse_line(line, number));
  }
  return schedule;
}

}  // namespace tw::schedule
