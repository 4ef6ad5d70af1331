#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "schedule/schedule.h"

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
  if (p.kind == PrimitiveKind::kSplit) return fmt::format("{} in tiles of", p.loops.front());
  if (p.kind == PrimitiveKind::kReorder) return "order";
  if (p.kind == PrimitiveKind::kImplement) return "by";
  const std::string text = to_string(Schedule().add(p));
  return text.substr(0, text.find(' '));
}

std::string text_of(const Primitive& p) {
  const std::string value = value_of(p);
  return value.empty() ? subject_of(p) : fmt::format("{} {}", subject_of(p), value);
}

// What decides the rest: who unrolls and vectorizes, and where stages are computed, follows from tiles and orders.
bool decides(const Primitive* p) {
  return p->kind == PrimitiveKind::kSplit || p->kind == PrimitiveKind::kReorder ||
         p->kind == PrimitiveKind::kImplement || p->kind == PrimitiveKind::kRfactor;
}

struct Difference {
  const Primitive* primitive;
  std::string text;
};

std::vector<Difference> differences(const Schedule& other, const Schedule& chosen) {
  Lines missing = without(chosen, other);
  std::vector<Difference> all;
  for (const Primitive* p : without(other, chosen)) {
    all.push_back({p, text_of(*p)});
    const auto of_chosen = std::ranges::find_if(missing, [&](const Primitive* q) { return is_counterpart(*p, *q); });
    if (of_chosen == missing.end()) continue;
    all.back().text += fmt::format(" (chosen: {})", value_of(**of_chosen));
    missing.erase(of_chosen);
  }
  for (const Primitive* p : missing) all.push_back({p, "not " + text_of(*p)});
  std::ranges::stable_partition(all, decides, &Difference::primitive);
  return all;
}

}  // namespace

std::string difference_in_words(const Schedule& other, const Schedule& chosen) {
  std::vector<Difference> all = differences(other, chosen);
  const auto deciding = static_cast<size_t>(std::ranges::count_if(all, decides, &Difference::primitive));
  const size_t named = std::min(deciding > 0 ? deciding : all.size(), kMaxNamed);
  std::string text, stage;
  for (const Difference& d : std::span(all).first(named)) {
    if (!text.empty()) text += d.primitive->stage == stage ? ", " : "; ";
    if (d.primitive->stage != stage) text += d.primitive->stage + ": ";
    text += d.text;
    stage = d.primitive->stage;
  }
  if (all.size() > named) text += fmt::format("; {} more", all.size() - named);
  return text;
}

}  // namespace tw::schedule
