#include "measure/tournament.h"

#include <algorithm>
#include <cmath>

#include "measure/fill.h"
#include "support/join.h"

namespace tw::measure {
namespace {

constexpr double kPatience = 50;          // times the expected time: then a candidate hangs
constexpr double kSampleNs = 300e3;       // a sample: long against a timer and a barrier, short against a time slice
constexpr double kMaxSamplingNs = 150e6;  // of samples of one candidate: long ones get fewer of them
constexpr int64_t kMaxRepetitions = 256;  // in a sample
constexpr int64_t kRoundSamples = 2;      // before it is another candidate's turn
constexpr int64_t kMinSamples = 3;
constexpr int64_t kMinQuiet = 3;
constexpr double kCompareNs = 20;  // of a byte of an output, to fetch it and to compare it with another one

// Of the outputs that are looked at.
double wanted_bytes(const Workload& workload) {
  double bytes = 0;
  for (const Wanted& want : workload.wanted)
    bytes += static_cast<double>(storage_size(workload.buffers[static_cast<size_t>(want.buffer)]));
  return bytes;
}

// The element of rank `share` * (n - 1), rounded down.
double at_rank(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

Request ask(Question question, size_t slot) {
  Request request;
  request.question = question;
  request.slot = static_cast<int64_t>(slot);
  return request;
}

}  // namespace

Timing summarize(std::span<const Sample> samples) {
  std::vector<double> quiet, all;
  for (const Sample& s : samples) {
    all.push_back(s.nanoseconds);
    if (s.quiet) quiet.push_back(s.nanoseconds);
  }
  Timing timing;
  if (all.empty()) return timing;
  timing.samples = static_cast<int64_t>(all.size());
  timing.quiet_share = static_cast<double>(quiet.size()) / static_cast<double>(all.size());
  std::vector<double>& used = static_cast<int64_t>(quiet.size()) >= kMinQuiet ? quiet : all;
  std::ranges::sort(used);
  timing.best_decile_ns = at_rank(used, 0.1);
  timing.median_ns = at_rank(used, 0.5);
  return timing;
}

Tournament::Tournament(std::span<const Workload> workloads, const MeasureOptions& options, const WorkerOptions& limits,
                       WorkerClient& worker)
    : workloads_(workloads), options_(options), limits_(limits), worker_(worker), entrants_(workloads.size()) {}

std::vector<Measured> Tournament::run() {
  for (size_t i = 0; i < entrants_.size() && !stopped(); ++i) {
    admit(i);
    if (deserves_another_try(i)) admit(i);
  }
  if (!stopped()) drop_by_first_run();  // after an early end every time stays a rough one
  int64_t turns = 0;
  for (bool active = true; active && turns * kRoundSamples < options_.samples; ++turns) {
    active = false;
    for (size_t i = 0; i < entrants_.size() && !stopped(); ++i) {
      if (!entrants_[i].active) continue;
      sample_once(i);
      if (deserves_another_try(i)) sample_once(i);
      active = active || entrants_[i].active;
    }
    drop_slow_ones();
    active = active && !stopped();
  }
  worker_.ask(Request(), limits_.load_seconds);  // kReset
  return mapped(entrants_, [&](const Entrant& e) { return result(e); });
}

// Notes what a failed question says of entrant i; whether it was answered.
bool Tournament::settle(size_t i, const Reply& reply) {
  if (reply.outcome == Outcome::kMeasured) return true;
  Entrant& entrant = entrants_[i];
  entrant.outcome = reply.outcome;
  entrant.reason = reply.reason;
  entrant.active = false;
  return false;
}

// Whoever ends or stops workers (a user, a system without memory, a debugger) says nothing of what they run: an entrant
// that lost its worker so may begin again, once.
bool Tournament::deserves_another_try(size_t i) {
  Entrant& entrant = entrants_[i];
  const bool may_be_foreign = entrant.outcome == Outcome::kNotMeasured || entrant.outcome == Outcome::kTimedOut;
  if (entrant.active || !may_be_foreign || stopped() || std::exchange(entrant.tried_again, true)) return false;
  entrant.outcome = entrant.samples.empty() ? Outcome::kNotMeasured : Outcome::kMeasured;
  entrant.active = true;
  return true;
}

double Tournament::patience(double runs_ns) const { return limits_.run_seconds + kPatience * runs_ns * 1e-9; }

bool Tournament::load(size_t i) {
  Entrant& entrant = entrants_[i];
  if (!worker_.start()) return settle(i, {Outcome::kNotMeasured, worker_.why(), {}});
  if (entrant.generation == worker_.generation()) return true;
  Request request = ask(Question::kLoad, i);
  request.threads = options_.threads;
  request.rotate_bytes = options_.rotate_bytes;
  request.workload = workloads_[i];
  Reply reply = worker_.ask(request, limits_.load_seconds);
  if (reply.outcome != Outcome::kMeasured && reply.outcome != Outcome::kDeclined) reply.outcome = Outcome::kNotMeasured;
  const bool loaded = settle(i, reply);
  entrant.generation = loaded ? worker_.generation() : -1;
  return loaded;
}

// Runs a candidate for the first time and looks at what it computes.
void Tournament::admit(size_t i) {
  if (!load(i)) return;
  Request request = ask(Question::kRun, i);
  const bool compares = kept_ && entrants_[*kept_].generation == worker_.generation();
  request.outputs = compares ? Request::Outputs::kCompare : Request::Outputs::kKeep;
  const double looking = wanted_bytes(workloads_[i]) * kCompareNs * 1e-9;
  const Reply reply = worker_.ask(request, patience(2 * workloads_[i].expected_ns) + looking);
  if (!settle(i, reply)) return;
  const std::string wrong = options_.check ? options_.check(i, reply.answer.outputs) : "";
  Entrant& entrant = entrants_[i];
  if (!wrong.empty()) {
    settle(i, {Outcome::kWrong, wrong, {}});
    return;
  }
  if (!compares) kept_ = i;
  const std::string differs = compares && options_.disagree ? options_.disagree(reply.answer.differences) : "";
  if (!differs.empty()) {
    settle(i, {Outcome::kWrong, fmt::format("it or candidate {} is wrong: {}", *kept_, differs), {}});
    settle(*kept_, {Outcome::kWrong, fmt::format("it or candidate {} is wrong: {}", i, differs), {}});
    entrants_[*kept_].run_ns = 0;
    kept_.reset();
    return;
  }
  entrant.run_ns = reply.answer.warm_ns;
  entrant.active = true;
}

void Tournament::sample_once(size_t i) {
  Entrant& entrant = entrants_[i];
  if (!load(i)) return;  // another candidate may have taken the worker with it
  const double run_ns = std::max(entrant.run_ns, 1.0);
  const double repetitions = std::clamp(std::ceil(kSampleNs / run_ns), 1.0, static_cast<double>(kMaxRepetitions));
  Request request = ask(Question::kSample, i);
  request.repetitions = static_cast<int64_t>(repetitions);
  request.samples = repetitions * run_ns > kMaxSamplingNs / static_cast<double>(options_.samples) ? 1 : kRoundSamples;
  const Reply reply = worker_.ask(request, patience(run_ns * repetitions * static_cast<double>(request.samples)));
  if (!settle(i, reply)) return;
  entrant.outcome = Outcome::kMeasured;
  entrant.samples.insert(entrant.samples.end(), reply.answer.samples.begin(), reply.answer.samples.end());
  double spent = 0;
  for (const Sample& s : entrant.samples) spent += s.nanoseconds * repetitions;
  const auto count = static_cast<int64_t>(entrant.samples.size());
  if (count >= options_.samples || (count >= kMinSamples && spent > kMaxSamplingNs)) entrant.active = false;
}

// A warm run alone is a rough time: only what is far behind goes, and not by one run. The first candidate of all meets
// a processor that has rested.
void Tournament::drop_by_first_run() {
  constexpr double kRoughness = 2.4;
  const auto limit = [&] {
    double best = INFINITY;
    for (const Entrant& e : entrants_) {
      if (e.active) best = std::min(best, e.run_ns);
    }
    return kRoughness * options_.drop_ratio * best;
  };
  for (size_t i = 0; i < entrants_.size() && !stopped(); ++i) {
    if (entrants_[i].active && entrants_[i].run_ns > limit()) run_again(i);
  }
  const double last = limit();
  for (Entrant& e : entrants_) {
    e.dropped = e.active && e.run_ns > last;
    e.active = e.active && !e.dropped;
  }
}

void Tournament::run_again(size_t i) {
  Entrant& entrant = entrants_[i];
  if (!load(i)) return;
  const Reply reply = worker_.ask(ask(Question::kSample, i), patience(2 * entrant.run_ns));
  if (!settle(i, reply)) return;
  for (const Sample& s : reply.answer.samples) entrant.run_ns = std::min(entrant.run_ns, s.nanoseconds);
}

void Tournament::drop_slow_ones() {
  double best = INFINITY;
  const auto fastest = [](const Entrant& e) {
    double ns = INFINITY;
    for (const Sample& s : e.samples) ns = std::min(ns, s.nanoseconds);
    return ns;
  };
  for (const Entrant& e : entrants_) {
    if (e.outcome == Outcome::kMeasured) best = std::min(best, fastest(e));
  }
  for (Entrant& e : entrants_) {
    const bool known = static_cast<int64_t>(e.samples.size()) >= kMinSamples;  // one turn may be disturbed whole
    e.dropped = e.dropped || (e.active && known && fastest(e) > options_.drop_ratio * best);
    e.active = e.active && !e.dropped;
  }
}

Measured Tournament::result(const Entrant& entrant) const {
  if (entrant.outcome != Outcome::kMeasured && entrant.outcome != Outcome::kNotMeasured)
    return {entrant.outcome, entrant.reason, {}};
  if (entrant.run_ns == 0)
    return {Outcome::kNotMeasured, entrant.reason.empty() ? "measuring ended before its turn" : entrant.reason, {}};
  // No turn came, but it ran: one warm run says more than nothing.
  const Sample once = {entrant.run_ns, false};
  const bool was_sampled = !entrant.samples.empty();
  const bool finished = entrant.outcome == Outcome::kMeasured && !entrant.active;
  const Effort effort = entrant.dropped ? Effort::kDropped : finished ? Effort::kWhole : Effort::kCutShort;
  return {Outcome::kMeasured, "", was_sampled ? summarize(entrant.samples) : summarize({&once, 1}), effort};
}

}  // namespace tw::measure
