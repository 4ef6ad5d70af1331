#include "driver/tune/planner.h"

#include <cmath>

#include "support/join.h"

namespace tw::driver {
namespace {

// Whole ns: a time that the database gave back may differ in its last digit.
double whole_ns_in_us(double ns) { return std::round(ns) * 1e-3; }

// Why a candidate without a time is not the one.
std::string fault_of(const measure::Measured& m) {
  if (m.outcome == measure::Outcome::kMeasured) return "";
  const bool is_open = m.outcome == measure::Outcome::kNotMeasured;
  const std::string_view name = is_open ? "not measured" : measure::outcome_name(m.outcome);
  return m.reason.empty() ? std::string(name) : fmt::format("{}: {}", name, m.reason);
}

plan::OtherCandidate in_plan(const plan::GroupPlan& candidate, const measure::Measured& m) {
  plan::OtherCandidate other{.family = candidate.family, .reason = fault_of(m)};
  if (other.reason.empty()) other.microseconds = whole_ns_in_us(m.timing.best_decile_ns);
  other.predicted_us = candidate.predicted_us;
  other.is_rough = m.effort == measure::Effort::kDropped;
  return other;
}

// Candidates whose programs are equal are run once: they have one and the same time.
bool is_one_run(const measure::Measured& a, const measure::Measured& b) {
  return a.outcome == measure::Outcome::kMeasured && b.outcome == a.outcome &&
         a.timing.best_decile_ns == b.timing.best_decile_ns && a.timing.median_ns == b.timing.median_ns &&
         a.timing.samples == b.timing.samples;
}

// All candidates but the one at `best` (none: -1) and those that became the same code as another one.
std::vector<plan::OtherCandidate> others_of(const std::vector<plan::GroupPlan>& candidates, const TuneResult& result) {
  std::vector<plan::OtherCandidate> others;
  std::vector<size_t> told;  // of each of them, the candidate
  for (size_t c = 0; c < candidates.size(); ++c) {
    const measure::Measured& m = result.measured[c];
    if (result.best >= 0 && is_one_run(m, result.measured[static_cast<size_t>(result.best)])) continue;
    const auto same = std::ranges::find_if(told, [&](size_t t) { return is_one_run(m, result.measured[t]); });
    if (same != told.end()) {
      ++others[static_cast<size_t>(same - told.begin())].equal_code;
      continue;
    }
    told.push_back(c);
    others.push_back(in_plan(candidates[c], m));
    if (result.best < 0) continue;
    const plan::GroupPlan& best = candidates[static_cast<size_t>(result.best)];
    others.back().differs = candidates[c].family == best.family
                                ? schedule::difference_in_words(candidates[c].schedule, best.schedule)
                            : candidates[c].trace.empty() ? ""
                                                          : candidates[c].trace.front();
  }
  return others;
}

}  // namespace

void Planner::add(const std::string& name, const GroupTe& te, const std::string& text, const Precedent& precedent) {
  ++find_or_make(name, te, text, precedent).tune.uses;
}

void Planner::add_timed(const std::string& name, const GroupTe& te) {
  Task& task = find_or_make(name, te, text_of(te));
  if (tuner_ != nullptr && task.decided && !task.tune.is_timed && task.plan.microseconds == 0) {  // once more, measured
    task.decided = false;
    task.declined = std::move(task.plan.other_candidates);
  }
  task.tune.is_timed = true;
}

double Planner::microseconds_of(const std::string& text) const {
  const auto found = tasks_.find(text);
  return found == tasks_.end() ? 0 : found->second.plan.microseconds;
}

Planner::Task& Planner::find_or_make(const std::string& name, const GroupTe& te, const std::string& text,
                                     const Precedent& precedent) {
  const auto [found, fresh] = tasks_.try_emplace(text);
  Task& task = found->second;
  if (!fresh) return task;
  task.tune.name = name;
  task.tune.program = te.program;
  task.tune.uses = 0;
  task.precedent = precedent;
  for (const auto& [tensor, layout] : te.kept) task.tune.constants.insert(tensor);
  construct(task);
  return task;
}

void Planner::construct(Task& task) {
  const auto families = target_.families.subspan(task.next_family);
  std::vector<construct::Decline> declines;
  const construct::GroupTask group{task.tune.program, task.tune.constants, libraries_, precision_,
                                   task.precedent.stored};
  construct::Candidates built = construct::construct(families, group, target_.info, &declines);
  const bool first = task.next_family == 0;
  task.next_family += declines.size() + 1;
  explore(group, target_.families[task.next_family - 1], built);
  construct::Candidates joining;
  if (first) joining = construct::joining_candidates(families, group, target_.info, &declines);
  const auto needs_copy = [&](const construct::Construction& c) { return !fits_stored(group, c); };
  if (!std::ranges::all_of(built, needs_copy)) std::erase_if(built, needs_copy);
  follow(task.precedent, built, joining);
  task.tune.joined = joining.size();
  const bool is_last_resort = task.next_family == target_.owners();
  task.tune.owner_waits = target_.lacks_families && is_last_resort && !joining.empty();
  std::ranges::move(joining, std::back_inserter(built));
  for (const construct::Decline& r : declines) task.declined.push_back({r.family, r.reason});
  task.tune.candidates.clear();
  for (construct::Construction& c : built) {
    plan::GroupPlan plan{task.tune.name, c.family, std::move(c.constant_layouts), std::move(c.schedule), 0, {}, 0};
    plan.predicted_us = c.predicted_ns * 1e-3;
    plan.trace = std::move(c.trace);
    task.tune.candidates.push_back(std::move(plan));
  }
}

// Leaves few candidates where the family is among them, that of the same tile first.
void Planner::follow(const Precedent& precedent, construct::Candidates& built, construct::Candidates& joining) const {
  constexpr size_t kFollowed = 2;
  for (construct::Candidates* candidates : {&built, &joining}) {
    const auto is_other = [&](const construct::Construction& c) { return c.family != precedent.family; };
    if (std::ranges::all_of(*candidates, is_other)) continue;
    std::erase_if(*candidates, is_other);
    const auto is_alike = [&](const construct::Construction& c) {
      return !c.trace.empty() && c.trace.front() == precedent.tile;
    };
    std::ranges::stable_partition(*candidates, is_alike);
    if (candidates->size() > kFollowed) candidates->erase(candidates->begin() + kFollowed, candidates->end());
    if (candidates == &built) joining.clear();
    if (candidates == &joining && tuner_ == nullptr) built.clear();
    return;
  }
}

// Without a tuner nobody can tell which of them is better.
void Planner::explore(const construct::GroupTask& group, const construct::Constructor& family,
                      construct::Candidates& candidates) const {
  if (explore_.offer == construct::Offer::kFirst) candidates.resize(1);
  const bool random = explore_.offer == construct::Offer::kRandom;
  const size_t count = random ? candidates.size() : tuner_ == nullptr ? 0 : explore_.count;
  if (count == 0 || family.sample == nullptr) return;
  Result<construct::Candidates> sampled = family.sample(group, target_.info, {count, explore_.seed});
  if (!sampled.ok() || sampled->empty()) return;
  if (random) candidates.clear();
  for (construct::Construction& c : std::move(sampled).value()) {
    if (std::ranges::any_of(candidates, [&](const auto& known) { return is_same(known, c); })) continue;
    c.family = family.family;
    candidates.push_back(std::move(c));
  }
}

void Planner::decide(const TuneContext& context) {
  std::vector<Task*> open;
  for (auto& [text, task] : tasks_) {
    if (!task.decided) open.push_back(&task);
  }
  while (!open.empty()) {
    const std::vector<TuneTask> tasks = mapped(open, &Task::tune);
    const std::vector<TuneResult> results =
        tuner_ == nullptr ? std::vector<TuneResult>(tasks.size()) : tuner_->choose(tasks, context);
    std::vector<Task*> again;
    for (size_t i = 0; i < open.size(); ++i) {
      settle(*open[i], results[i]);
      if (!open[i]->decided) again.push_back(open[i]);
    }
    open = std::move(again);
  }
}

void Planner::settle(Task& task, const TuneResult& result) {
  std::vector<plan::GroupPlan>& candidates = task.tune.candidates;
  const bool measured = !result.measured.empty();
  const auto best = static_cast<size_t>(result.best);
  if (measured) std::ranges::move(others_of(candidates, result), std::back_inserter(task.declined));
  if (result.best < 0 && task.next_family < target_.owners()) {
    construct(task);  // the family behind takes its place
    return;
  }
  if (result.best < 0 && task.tune.uses == 0) {  // only its time was wanted: there is none
    task.decided = true;
    return;
  }
  if (result.best < 0) {
    const measure::Measured& m = result.measured.front();
    throw InternalError("group {}: no candidate of its last family, {}, may be used; the first one: {}", task.tune.name,
                        candidates.front().family, fault_of(m));
  }
  task.plan = candidates[best];
  if (measured) task.plan.microseconds = whole_ns_in_us(result.measured[best].timing.best_decile_ns);
  task.plan.other_candidates = std::move(task.declined);
  task.decided = true;
}

plan::GroupPlan Planner::plan_of(const std::string& name, const std::string& text) const {
  const auto found = tasks_.find(text);
  TW_CHECK(found != tasks_.end() && found->second.decided, "group {} is not decided", name);
  plan::GroupPlan plan = found->second.plan;
  plan.name = name;
  return plan;
}

}  // namespace tw::driver
