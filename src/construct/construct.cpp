#include "construct/construct.h"

namespace tw::construct {

bool fits_stored(const GroupTask& task, const Construction& construction) {
  return std::ranges::all_of(task.stored, [&](const auto& input) {
    const auto own = construction.constant_layouts.find(input.first);
    const Layout layout = own == construction.constant_layouts.end() ? Layout() : own->second;
    return std::ranges::find(input.second, layout) != input.second.end();
  });
}

Candidates best_distinct(Candidates candidates) {
  constexpr size_t kMaxCandidates = 6;  // that differ little
  std::ranges::stable_sort(candidates, {}, &Construction::predicted_ns);
  Candidates distinct;
  for (Construction& candidate : candidates) {
    const bool known = std::ranges::any_of(distinct, [&](const Construction& c) { return is_same(c, candidate); });
    if (!known && distinct.size() < kMaxCandidates) distinct.push_back(std::move(candidate));
  }
  return distinct;
}

Candidates construct(std::span<const Constructor> families, const GroupTask& task, const TargetInfo& target,
                     std::vector<Decline>* declines) {
  for (const Constructor& family : families) {
    if (family.kind != FamilyKind::kOwns) break;
    Result<Candidates> built = family.construct(task, target);
    if (built.ok()) {
      Candidates candidates = std::move(built).value();
      for (Construction& c : candidates) c.family = family.family;
      return candidates;
    }
    if (declines != nullptr) declines->push_back({std::string(family.family), built.reason()});
  }
  throw InternalError(fmt::format("no family constructs a schedule for {}", task.program.name));
}

Candidates joining_candidates(std::span<const Constructor> families, const GroupTask& task, const TargetInfo& target,
                              std::vector<Decline>* declines) {
  Candidates all;
  for (const Constructor& family : families) {
    if (family.kind != FamilyKind::kJoins) continue;
    Result<Candidates> built = family.construct(task, target);
    if (!built.ok()) declines->push_back({std::string(family.family), built.reason()});
    if (!built.ok()) continue;
    for (Construction& c : std::move(built).value()) {
      c.family = family.family;
      all.push_back(std::move(c));
    }
  }
  return all;
}

}  // namespace tw::construct
