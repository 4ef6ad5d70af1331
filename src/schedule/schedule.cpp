#include "schedule/schedule.h"

#include <fmt/ranges.h>

#include <charconv>
#include <sstream>

#include "support/error.h"

namespace tw::schedule {
namespace {

constexpr std::array<std::string_view, 24> kNames = {
    "split",      "reorder",    "fuse",        "vectorize", "unroll",   "threads",   "parallel", "inline",
    "compute_at", "cache_read", "cache_write", "rfactor",   "pipeline", "tensorize", "prefetch", "layout",
    "matrices",   "write_at",   "implement",   "branch",    "online",   "carry",     "whole",    "skip_zeros"};

std::string to_string(const Primitive& p) {
  std::string text = fmt::format("{} {}", kNames[static_cast<size_t>(p.kind)], p.stage);
  for (const std::string& loop : p.loops) text += " " + loop;
  if (!p.factors.empty()) text += fmt::format(" [{}]", fmt::join(p.factors, ","));
  if (!p.option.empty()) text += fmt::format(" \"{}\"", p.option);
  if (p.implementation) text += fmt::format(" \"{}\"", loop::to_string(p.implementation));
  return text;
}

std::vector<int64_t> parse_factors(std::string_view text) {
  std::vector<int64_t> factors;
  while (!text.empty()) {
    int64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc()) throw UserError("'{}' is no list of numbers", text);
    factors.push_back(value);
    text.remove_prefix(end - text.data());
    if (!text.empty() && text.front() == ',') text.remove_prefix(1);
  }
  return factors;
}

}  // namespace

std::string cache_name(const std::string& tensor, int64_t number) {
  return number == 1 ? tensor + ".cache" : fmt::format("{}.cache{}", tensor, number);
}

std::string Schedule::next_cache(const std::string& tensor) const {
  return cache_name(tensor, 1 + std::ranges::count_if(primitives_, [&](const Primitive& p) {
                              return p.kind == kCacheRead && p.stage == tensor;
                            }));
}

bool gathers(const Schedule& schedule) {
  return std::ranges::any_of(schedule.primitives(),
                             [](const Primitive& p) { return p.kind == PrimitiveKind::kMatrices; });
}

std::string to_string(const Schedule& schedule) {
  std::string text;
  for (const Primitive& p : schedule.primitives()) text += to_string(p) + "\n";
  return text;
}

Primitive parse_primitive(const std::string& line) {
  std::istringstream words(line);
  std::string word;
  words >> word;
  size_t kind = 0;
  while (kind < kNames.size() && kNames[kind] != word) ++kind;
  if (kind == kNames.size()) throw UserError("unknown primitive '{}'", word);
  Primitive p{static_cast<PrimitiveKind>(kind), ""};
  if (!(words >> p.stage)) throw UserError("'{}' names no stage", word);
  while (words >> std::ws && words.peek() != EOF) {
    if (words.peek() == '"') {
      words.get();
      std::getline(words, p.option, '"');
      if (p.kind == PrimitiveKind::kImplement)
        p.implementation = loop::parse_implementation(std::exchange(p.option, {}));
      continue;
    }
    words >> word;
    if (word.front() == '[' && word.back() == ']') {
      p.factors = parse_factors(std::string_view(word).substr(1, word.size() - 2));
    } else {
      p.loops.push_back(word);
    }
  }
  return p;
}

Schedule parse_schedule(std::string_view text) {
  Schedule schedule;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(' ') == std::string::npos || line[line.find_first_not_of(' ')] == '#') continue;
    try {
      schedule.add(parse_primitive(line));
    } catch (const UserError& error) {
      throw UserError("schedule line {}: {}", number, error.what());
    }
  }
  return schedule;
}

}  // namespace tw::schedule
