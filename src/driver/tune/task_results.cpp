#include "driver/tune/task_results.h"

#include <cmath>

#include "driver/tune/tuning_records.h"

namespace tw::driver {
namespace {

using measure::Measured;
using measure::Outcome;

double time_of(const Measured& m) { return m.outcome == Outcome::kMeasured ? m.timing.best_decile_ns : INFINITY; }

// The fastest one, one that was dropped only where no other has a time; without any time the first one that may be
// used.
int64_t pick(const std::vector<Measured>& measured) {
  const auto rank = [](const Measured& m) {
    const bool is_rough = m.effort == measure::Effort::kDropped;
    return std::pair(m.outcome != Outcome::kMeasured ? 2 : is_rough ? 1 : 0, time_of(m));
  };
  int64_t best = -1;
  for (size_t c = 0; c < measured.size(); ++c) {
    if (is_quarantined(measured[c].outcome)) continue;
    if (best < 0 || rank(measured[c]) < rank(measured[static_cast<size_t>(best)])) best = static_cast<int64_t>(c);
  }
  return best;
}

bool is_unknown(const Measured& m) { return m.outcome == Outcome::kNotMeasured; }

}  // namespace

TaskResults::TaskResults(std::span<const TuneTask> tasks, const TuneContext& context, const TunerOptions& options,
                         const Shortlist& shortlist)
    : tasks_(tasks), context_(context), options_(options), shortlist_(shortlist), results_(tasks.size()) {}

std::vector<size_t> TaskResults::look_up(const std::vector<size_t>& order, database::Database* database) {
  database_ = database;
  if (database_ == nullptr) return order;
  std::vector<size_t> open;
  for (const size_t t : order) {
    TuneResult& result = results_[t];
    result.measured = known_results(tasks_[t].candidates, database_->find(task_key(tasks_[t], context_, options_)),
                                    options_.drop_ratio);
    result.best = pick(result.measured);
    bool missing = false;
    for (size_t c = 0; c < result.measured.size(); ++c)
      missing = missing || (is_unknown(result.measured[c]) && shortlist_.has(t, c));
    if (missing) open.push_back(t);
    if (std::ranges::all_of(result.measured, is_unknown)) result.measured.clear();
  }
  return open;
}

std::vector<size_t> TaskResults::wanted(size_t t) const {
  const std::vector<Measured>& known = results_[t].measured;
  std::vector<size_t> out;
  for (size_t c = 0; c < tasks_[t].candidates.size(); ++c) {
    const bool best = static_cast<int64_t>(c) == results_[t].best;
    const bool is_known = !known.empty() && !is_unknown(known[c]);
    if (is_known ? best : shortlist_.has(t, c)) out.push_back(c);
  }
  return out;
}

void TaskResults::take(size_t t, const PreparedTask& prepared, const std::vector<Measured>& measured) {
  TuneResult& result = results_[t];
  result.measured.resize(tasks_[t].candidates.size());
  for (size_t i = 0; i < prepared.candidates.size(); ++i) {
    const size_t w = prepared.workload_of[i];
    const bool is_declined = w == PreparedTask::kNone;
    const Measured now = is_declined ? Measured{Outcome::kDeclined, prepared.codes[i].declined, {}} : measured[w];
    if (!is_unknown(now) && !prepared.is_mainloop_only(i)) result.measured[prepared.candidates[i]] = now;
  }
  judge_mainloop_only(t, prepared, measured);
  result.best = pick(result.measured);
  store(t, prepared.candidates);
  report(t);
}

// A template takes as long as its kernel without epilogue at least. So the fastest of these alone may be worth
// compiling, where it is faster than all candidates that were measured.
void TaskResults::judge_mainloop_only(size_t t, const PreparedTask& prepared, const std::vector<Measured>& measured) {
  std::vector<Measured>& known = results_[t].measured;
  double best = INFINITY, min = INFINITY;
  for (const Measured& m : known) best = min = std::min(best, time_of(m));
  size_t promising = PreparedTask::kNone;
  for (size_t w = 0; w < measured.size(); ++w) {
    const size_t i = prepared.candidate_of[w];
    if (!prepared.is_mainloop_only(i)) continue;
    const double ns = time_of(measured[w]);
    Measured& now = known[prepared.candidates[i]] = measured[w];
    if (ns < INFINITY) now = {Outcome::kDeclined, "", {}, now.effort};
    if (ns < INFINITY) now.reason = fmt::format("others take less than its {:.1f} us without epilogue", ns * 1e-3);
    if (ns < min) promising = i;
    min = std::min(min, ns);
  }
  if (promising == PreparedTask::kNone) return;
  known[prepared.candidates[promising]] = {};
  promising_.push_back({t, prepared.candidates[promising], prepared.codes[promising].loops, min, best - min});
}

// nvcc takes a minute for a template: for a hundredth of the model's time at least.
std::vector<Promising> TaskResults::take_promising() {
  std::erase_if(promising_, [&](const Promising& p) {
    const double share = shortlist_.share(p.task, p.gained_ns);
    if (share >= options_.whole_share / 5) return false;
    results_[p.task].measured[p.candidate].reason = fmt::format(
        "{:.1f} us without epilogue would gain {:.1f} % of the model's time: too little for nvcc (--measure-all)",
        p.ns * 1e-3, 100 * share);
    return true;
  });
  return std::exchange(promising_, {});
}

void TaskResults::decline(size_t t, size_t candidate, const std::string& reason) {
  results_[t].measured[candidate] = {Outcome::kDeclined, reason, {}};
  store(t, {&candidate, 1});
  report(t);
}

void TaskResults::store(size_t t, std::span<const size_t> candidates) {
  if (database_ == nullptr) return;
  std::vector<database::Record> records;
  for (const size_t c : candidates) {
    if (auto record = to_record(tasks_[t].candidates[c], results_[t].measured[c]))
      records.push_back(std::move(*record));
  }
  if (!records.empty()) database_->store(task_key(tasks_[t], context_, options_), records);
}

void TaskResults::report(size_t t) const {
  if (!options_.event) return;
  const TuneTask& task = tasks_[t];
  const std::vector<Measured>& measured = results_[t].measured;
  double best_us = 0;
  for (size_t c = 0; c < measured.size(); ++c) {
    const Measured& m = measured[c];
    const double us = m.timing.best_decile_ns * 1e-3;
    if (m.outcome == Outcome::kMeasured && (best_us == 0 || us < best_us)) best_us = us;
    options_.event({task.name, static_cast<int64_t>(c), static_cast<int64_t>(measured.size()), m,
                    task.candidates[c].predicted_us, task.candidates[c].trace, best_us});
  }
}

}  // namespace tw::driver
