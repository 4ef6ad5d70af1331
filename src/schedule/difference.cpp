#include "schedule/difference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace tw::schedule {
namespace {

constexpr size_t kMaxNamed = 4;

using Lines = std::vector<const Primitive*>;

// Primitives of `a` that `b` does not have as often.
Lines without(const Schedule& a, const Schedule& b) {
  std::vector<const Primitive*> rest;
  for (const Primitive& p : b.primitives()) rest.push_back(&p);
  Lines only;
  for (const Primitive& p : a.primitives()) {
    const auto same = std::ranges::find_if(rest, [&](const Primitive* q) { return *q == p; });
    if (same == rest.end()) {
      only.push_back(&p);
    } else {
      rest.erase(same);
    }
  }
  return only;
}

// Whether both are about one thing, which they do differently.
bool is_counterpart(const Primitive& a, const Primitive& b) {
  if (a.kind != b.kind || a.stage != b.stage) return false;
  return a.kind != PrimitiveKind::kSplit || a.loops == b.loops;
}

std::string value_of(const Primitive& p) {
  switch (p.kind) {
    case PrimitiveKind::kSplit:
    case PrimitiveKind::kRfactor:
      return fmt::format("{}", fmt::join(p.factors, "x"));
    case PrimitiveKind::kImplement:
      return loop::to_string(p.implementation);
    case PrimitiveKind::kReorder:
      return fmt::format("{}", fmt::join(p.loops, " "));
    default:
      break;
  }
  const std::string text = to_string(Schedule().add(p));
  const size_t behind = text.find(' ', text.find(' ') + 1);  // kind and stage are said already
  return behind == std::string::npos ? "" : text.substr(behind + 1, text.size() - behind - 2);
}

std::string subject_of(const Primitive& p) {
  if (p.kind == PrimitiveKind::kSplit) return fmt::format("{} along {} in tiles of", p.stage, p.loops.front());
  if (p.kind == PrimitiveKind::kReorder) return fmt::format("{} in order", p.stage);
  if (p.kind == PrimitiveKind::kImplement) return fmt::format("{} by", p.stage);
  const std::string text = to_string(Schedule().add(p));
  return fmt::format("{} {}", p.stage, text.substr(0, text.find(' ')));
}

std::string text_of(const Primitive& p) {
  const std::string value = value_of(p);
  return value.empty() ? subject_of(p) : fmt::format("{} {}", subject_of(p), value);
}

bool comes_first(const Primitive* p) {
  return p->kind == PrimitiveKind::kSplit || p->kind == PrimitiveKind::kReorder ||
         p->kind == PrimitiveKind::kImplement || p->kind == PrimitiveKind::kRfactor;
}

}  // namespace

std::string difference_in_words(const Schedule& other, const Schedule& chosen) {
  Lines own = without(other, chosen), missing = without(chosen, other);
  std::ranges::stable_partition(own, comes_first);
  std::ranges::stable_partition(missing, comes_first);
  std::vector<std::string> words;
  for (const Primitive* p : own) {
    const auto of_chosen = std::ranges::find_if(missing, [&](const Primitive* q) { return is_counterpart(*p, *q); });
    words.push_back(text_of(*p));
    if (of_chosen == missing.end()) continue;
    words.back() += fmt::format(" (chosen: {})", value_of(**of_chosen));
    missing.erase(of_chosen);
  }
  for (const Primitive* p : missing) words.push_back("without " + text_of(*p));
  if (words.size() > kMaxNamed) {
    const size_t more = words.size() - kMaxNamed;
    words.resize(kMaxNamed);
    words.push_back(fmt::format("{} more", more));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace tw::schedule
