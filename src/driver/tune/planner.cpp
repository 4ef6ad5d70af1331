#include "driver/tune/planner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "support/error.h"

namespace tw::driver {
namespace {

// Why a candidate that has no better one behind it is not the one: its time, or its fault.
std::string why_not(const plan::GroupPlan& candidate, const measure::Measured& m) {
  const std::string predicted =
      candidate.predicted_us > 0 ? fmt::format(", {:.1f} us predicted", candidate.predicted_us) : "";
  const std::string_view about = m.effort == measure::Effort::kDropped ? "about " : "";
  if (m.outcome == measure::Outcome::kMeasured)
    return fmt::format("{}{:.1f} us measured{}", about, m.timing.best_decile_ns * 1e-3, predicted);
  return fmt::format("{}: {}{}", measure::outcome_name(m.outcome), m.reason, predicted);
}

}  // namespace

void Planner::add(const std::string& name, const GroupTe& te, const std::string& text) {
  ++find_or_make(name, te, text).tune.uses;
}

void Planner::add_timed(const std::string& name, const GroupTe& te) {
  find_or_make(name, te, text_of(te)).tune.is_timed = true;
}

Planner::Task& Planner::find_or_make(const std::string& name, const GroupTe& te, const std::string& text) {
  const auto [found, fresh] = tasks_.try_emplace(text);
  Task& task = found->second;
  if (!fresh) return task;
  task.tune.name = name;
  task.tune.program = te.program;
  task.tune.uses = 0;
  for (const auto& [tensor, layout] : te.kept) task.tune.constants.insert(tensor);
  construct(task);
  return task;
}

void Planner::construct(Task& task) {
  const auto families = target_.families.subspan(task.next_family);
  std::vector<construct::Decline> declines;
  const construct::GroupTask group{task.tune.program, task.tune.constants, libraries_, precision_};
  construct::Candidates built = construct::construct(families, group, target_.info, &declines);
  const bool first = task.next_family == 0;
  task.next_family += declines.size() + 1;
  explore(group, target_.families[task.next_family - 1], built);
  construct::Candidates joining;
  if (first) joining = construct::joining_candidates(families, group, target_.info, &declines);
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

// Without a tuner nobody can tell which of them is better.
void Planner::explore(const construct::GroupTask& group, const construct::Constructor& family,
                      construct::Candidates& candidates) const {
  if (tuner_ == nullptr || explore_.count == 0 || family.sample == nullptr) return;
  Result<construct::Candidates> sampled = family.sample(group, target_.info, explore_);
  if (!sampled.ok()) return;
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
  for (size_t c = 0; measured && c < candidates.size(); ++c) {
    if (result.best < 0 || c != best)
      task.declined.push_back({candidates[c].family, why_not(candidates[c], result.measured[c])});
  }
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
                        candidates.front().family, why_not(candidates.front(), m));
  }
  task.plan = candidates[best];
  // Whole ns: a time that the database gave back may differ in its last digit.
  if (measured) task.plan.microseconds = std::round(result.measured[best].timing.best_decile_ns) * 1e-3;
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
