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

constexpr std::array<std::string_view, 18> kNames = {
    "split",      "reorder",     "fuse",    "vectorize", "unroll",    "threads",  "parallel", "inline",   "compute_at",
    "cache_read", "cache_write", "rfactor", "pipeline",  "tensorize", "prefetch", "layout",   "matrices", "implement"};

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
  Primitive p{static_cast<PrimitiveKind>(kind), "", {}, {}, ""};
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

Schedule& Schedule::add(Primitive primitive) {
  primitives_.push_back(std::move(primitive));
  return *this;
}
Schedule& Schedule::split(const std::string& stage, const std::string& loop, std::vector<int64_t> factors) {
  return add({PrimitiveKind::kSplit, stage, {loop}, std::move(factors), ""});
}
Schedule& Schedule::reorder(const std::string& stage, std::vector<std::string> loops) {
  return add({PrimitiveKind::kReorder, stage, std::move(loops), {}, ""});
}
Schedule& Schedule::fuse(const std::string& stage, std::vector<std::string> loops) {
  return add({PrimitiveKind::kFuse, stage, std::move(loops), {}, ""});
}
Schedule& Schedule::vectorize(const std::string& stage, const std::string& loop) {
  return add({PrimitiveKind::kVectorize, stage, {loop}, {}, ""});
}
Schedule& Schedule::unroll(const std::string& stage, const std::string& loop) {
  return add({PrimitiveKind::kUnroll, stage, {loop}, {}, ""});
}
Schedule& Schedule::threads(const std::string& stage, const std::string& loop) {
  return add({PrimitiveKind::kThreads, stage, {loop}, {}, ""});
}
Schedule& Schedule::parallel(const std::string& stage, std::vector<std::string> loops, std::vector<int64_t> factors) {
  return add({PrimitiveKind::kParallel, stage, std::move(loops), std::move(factors), ""});
}
Schedule& Schedule::inline_stage(const std::string& stage) { return add({PrimitiveKind::kInline, stage, {}, {}, ""}); }
Schedule& Schedule::compute_at(const std::string& stage, const std::string& consumer, const std::string& loop,
                               loop::Scope scope, int64_t pad) {
  std::vector<int64_t> factors;
  if (pad > 0) factors.push_back(pad);
  return add({PrimitiveKind::kComputeAt, stage, {consumer, loop}, std::move(factors), std::string(scope_name(scope))});
}
Schedule& Schedule::cache_read(const std::string& tensor, std::vector<std::string> readers) {
  return add({PrimitiveKind::kCacheRead, tensor, std::move(readers), {}, ""});
}
Schedule& Schedule::cache_write(const std::string& stage) {
  return add({PrimitiveKind::kCacheWrite, stage, {}, {}, ""});
}
Schedule& Schedule::rfactor(const std::string& stage, const std::string& loop, int64_t factor) {
  return add({PrimitiveKind::kRfactor, stage, {loop}, {factor}, ""});
}
Schedule& Schedule::rfactor_blocks(const std::string& stage, const std::string& loop, int64_t blocks) {
  return add({PrimitiveKind::kRfactor, stage, {loop}, {blocks}, "blocks"});
}
Schedule& Schedule::pipeline(const std::string& stage, const std::string& loop, int64_t stages) {
  return add({PrimitiveKind::kPipeline, stage, {loop}, {stages}, ""});
}
Schedule& Schedule::tensorize(const std::string& stage, const std::string& loop, const std::string& body,
                              std::vector<int64_t> parameters) {
  return add({PrimitiveKind::kTensorize, stage, {loop}, std::move(parameters), body});
}

Schedule& Schedule::prefetch(const std::string& stage, const std::vector<std::string>& loops, const std::string& tensor,
                             std::vector<int64_t> ahead_count_step) {
  return add({PrimitiveKind::kPrefetch, stage, loops, std::move(ahead_count_step), tensor});
}

Schedule& Schedule::layout(const std::string& tensor, const Layout& layout) {
  return layout.is_identity() ? *this : add({PrimitiveKind::kLayout, tensor, {}, {}, tw::to_string(layout)});
}
Schedule& Schedule::matrices(const std::string& stage, std::vector<std::string> roles, std::vector<int64_t> multiples,
                             const std::string& taps) {
  return add({PrimitiveKind::kMatrices, stage, std::move(roles), std::move(multiples), taps});
}
Schedule& Schedule::implement(const std::string& stage, const std::string& implementation) {
  return add({PrimitiveKind::kImplement, stage, {}, {}, implementation});
}

std::string_view scope_name(loop::Scope scope) {
  constexpr std::array<std::string_view, 4> kScopes = {"param", "scratch", "stack", "register"};
  return kScopes[static_cast<size_t>(scope)];
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
