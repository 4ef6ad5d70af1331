#include "driver/tune/tuner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <future>
#include <optional>
#include <utility>

#include "core/model_units.h"
#include "core/target_features.h"
#include "driver/tune/candidate.h"
#include "driver/tune/candidate_check.h"
#include "driver/tune/tuning_records.h"
#include "measure/cuda_executor.h"
#include "measure/worker_measurer.h"
#include "support/error.h"
#include "support/file_lock.h"
#ifdef TW_HAVE_CUDA
#include "driver/code/template_code.h"
#endif

namespace tw::driver {
namespace {

using measure::Measured;
using measure::Outcome;

constexpr size_t kFewest = 3;  // candidates of a group that are measured
constexpr size_t kNone = SIZE_MAX;
constexpr double kLightOnGpu =
    0.2;  // of TunerOptions::light_us: all kernels of a network of batch 1 are so short there

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Candidates of a task with code, ready for the measurer; those that are equal once.
struct Prepared {
  std::vector<size_t> candidates;    // of the task: those that are to be measured
  std::vector<CandidateCode> codes;  // of each of them
  std::vector<measure::Workload> workloads;
  std::vector<size_t> workload_of;   // of each candidate; kNone: it was refused
  std::vector<size_t> candidate_of;  // of each workload: the first in `candidates` that has it
  std::optional<Result<CandidateCheck>> check;

  bool is_stand_in(size_t i) const { return codes[i].code.is_stand_in; }
};

// A candidate whose stand-in was faster than all others.
struct Promising {
  size_t task, candidate;
  loop::Program loops;
  double ns, gained_ns;  // of the stand-in, and by how much: more than the whole kernel can gain
};

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

}  // namespace

measure::Warmth warmth_of_weights(double bytes, const TargetInfo& target) {
  // Activations take their part of each cache, half of it by this guess.
  constexpr double kShare = 0.5;
  double in_private = 0, in_any = 0;
  for (size_t l = 0; l + 1 < target.levels.size(); ++l) {  // without memory
    const MemoryLevel& level = target.levels[l];
    const double capacity = kShare * static_cast<double>(level.capacity_bytes) * (level.shared ? 1 : target.units);
    if (!level.shared) in_private = std::max(in_private, capacity);
    in_any = std::max(in_any, capacity);
  }
  if (bytes <= in_private) return measure::Warmth::kWarm;
  return bytes <= in_any ? measure::Warmth::kRotated : measure::Warmth::kFlushed;
}

double estimate_ns(const te::Program& program, const TargetInfo& target) {
  double bytes = 0;
  const auto add = [&](const te::Tensor& t) { bytes += static_cast<double>(num_elements(t.shape) * t.type.bytes()); };
  for (const te::Tensor& t : program.inputs) add(t);
  for (const std::string& name : program.outputs) add(program.tensor(name));
  const double measured = target.levels.empty() ? 0 : target.levels.back().all_per_ns;
  return std::max(contraction_flop(program) / (peak_flop_per_ns(target) * std::max(1, target.units)),
                  bytes / (measured > 0 ? measured : kNominalBytesPerNs));
}

/// One call of choose().
class Tuner::Session {
 public:
  Session(Tuner& tuner, std::span<const TuneTask> tasks, const TuneContext& context)
      : tuner_(tuner), tasks_(tasks), context_(context), results_(tasks.size()), started_(now_seconds()) {
    if (const Result<std::string>& device = tuner.device(context.target); device.ok()) context_.device = *device;
    for (const TuneTask& task : tasks_) total_ns_ += total_weight(task);
    context_.tools.cubins.stop_when([this] { return stopped(); });
  }
  ~Session() { context_.tools.cubins.stop_when({}); }

  std::vector<TuneResult> run() {
    std::vector<size_t> open = look_up(heavy_tasks());
    if (!open.empty()) {
      tuner_.complete_ = tuner_.complete_ && tuner_.start(context_.target);
      if (tuner_.measurer_ != nullptr) measure_all(open);
      if (const std::vector<size_t> again = compile_promising(); !again.empty()) measure_all(again);
    }
    tuner_.spent_seconds_ += now_seconds() - started_;
    return std::move(results_);
  }

 private:
  const TunerOptions& options() const { return tuner_.options_; }
  bool is_gpu() const { return context_.target.kind == DeviceKind::kCuda; }

  bool stopped() const {
    if (options().interrupted && options().interrupted()) return true;
    return options().budget_seconds > 0 && tuner_.spent_seconds_ + now_seconds() - started_ > options().budget_seconds;
  }

  void notice(const std::string& text) const {
    if (options().notice) options().notice(text);
  }

  double weight(const TuneTask& task) const {
    const double predicted = task.candidates.front().predicted_us * 1e3;
    return predicted > 0 ? predicted : estimate_ns(task.program, context_.target);
  }

  static double uses(const TuneTask& task) { return static_cast<double>(std::max<int64_t>(1, task.uses)); }

  double total_weight(const TuneTask& task) const { return weight(task) * uses(task); }

  // How many of the first candidates are measured: what a group can win is bounded by its share of the model's time. So
  // a model has at most candidates / whole_share of them besides kFewest a task, 200 for the defaults, however many
  // groups it has: NVRTC takes half a second for one, half a minute of 16 CPUs for 400.
  size_t considered(const TuneTask& task) const {
    const auto all = static_cast<double>(task.candidates.size() - task.joined);
    const double whole = options().whole_share * total_ns_;
    const double part = total_weight(task) < whole ? total_weight(task) / whole : 1;
    const auto wanted = static_cast<size_t>(std::ceil(all * part));
    return std::min(task.candidates.size() - task.joined, std::max(kFewest, wanted));
  }

  bool is_considered(const TuneTask& task, size_t candidate) const {
    return candidate < considered(task) || candidate >= task.candidates.size() - task.joined;
  }

  // Those worth measuring, the largest share of the model's time first.
  std::vector<size_t> heavy_tasks() const {
    const double light_ns = options().light_us * 1e3 * (is_gpu() ? kLightOnGpu : 1);
    std::vector<size_t> order;
    for (size_t t = 0; t < tasks_.size(); ++t) {
      const TuneTask& task = tasks_[t];
      if (task.is_timed || (task.candidates.size() > 1 && weight(task) >= light_ns)) order.push_back(t);
    }
    std::ranges::stable_sort(order,
                             [&](size_t a, size_t b) { return total_weight(tasks_[a]) > total_weight(tasks_[b]); });
    return order;
  }

  // What earlier compilations know; returns the tasks that they do not know all candidates of.
  std::vector<size_t> look_up(const std::vector<size_t>& order) {
    if (!order.empty()) tuner_.open_database();
    if (tuner_.database_ == nullptr) return order;
    std::vector<size_t> open;
    for (const size_t t : order) {
      TuneResult& result = results_[t];
      result.measured = known_results(
          tasks_[t].candidates, tuner_.database_->find(task_key(tasks_[t], context_, options())), options().drop_ratio);
      result.best = pick(result.measured);
      const auto unknown = [](const Measured& m) { return m.outcome == Outcome::kNotMeasured; };
      bool missing = false;
      for (size_t c = 0; c < result.measured.size(); ++c)
        missing = missing || (unknown(result.measured[c]) && is_considered(tasks_[t], c));
      if (missing) open.push_back(t);
      if (std::ranges::all_of(result.measured, unknown)) result.measured.clear();
    }
    return open;
  }

  // Tasks whose code is made while an earlier one is measured. Measuring on a GPU leaves the CPUs to code generation,
  // and a task has fewer candidates than there are CPUs; on a CPU there must be cores that it does not measure with.
  size_t ahead() const {
    constexpr size_t kTasksAhead = 3;
    if (is_gpu()) return kTasksAhead;
    return options().threads == 1 && context_.target.units > 1 ? 1 : 0;
  }

  void measure_all(const std::vector<size_t>& open) try {
    const auto total = static_cast<int64_t>(open.size());
    // On a CPU code ahead is made by one core, beside the one that measures.
    const int threads = is_gpu() ? context_.tools.threads : 1;
    std::deque<std::future<Prepared>> coming;
    size_t begun = 0;
    int64_t done = 0;
    for (; done < total && !stopped(); ++done) {
      const auto now = static_cast<size_t>(done);
      if (context_.progress) context_.progress(done, total);
      if (coming.empty()) begun = now + 1;
      Prepared prepared = coming.empty() ? prepare(open[now], context_.tools.threads) : take_first(coming);
      for (; begun < open.size() && coming.size() < ahead(); ++begun) {
        coming.push_back(
            std::async(std::launch::async, [this, t = open[begun], threads] { return prepare(t, threads); }));
      }
      measure(open[now], std::move(prepared));
    }
    tuner_.complete_ = tuner_.complete_ && !stopped();
    if (context_.progress) context_.progress(total, total);
  } catch (const Stopped&) {
    tuner_.complete_ = false;
  }

  static Prepared take_first(std::deque<std::future<Prepared>>& coming) {
    std::future<Prepared> first = std::move(coming.front());
    coming.pop_front();
    return first.get();
  }

  // Code of the candidates that nobody knows, and of the best known one: times of one run compare.
  Prepared prepare(size_t t, int threads) const {
    const TuneTask& task = tasks_[t];
    const std::vector<Measured>& known = results_[t].measured;
    Prepared out;
    std::vector<plan::GroupPlan> plans;
    for (size_t c = 0; c < task.candidates.size(); ++c) {
      const bool best = static_cast<int64_t>(c) == results_[t].best;
      const bool is_known = !known.empty() && known[c].outcome != Outcome::kNotMeasured;
      if ((is_known || !is_considered(task, c)) && !best) continue;
      out.candidates.push_back(c);
      plans.push_back(task.candidates[c]);
    }
    const CodeTools tools = {threads, context_.tools.cubins, true};
    out.codes = make_candidates(task.program, plans, {context_.target, context_.group, tools});
    out.check = CandidateCheck::make(task, context_);
    out.workload_of.assign(out.codes.size(), kNone);
    std::map<std::string, size_t> seen;                  // loop program -> workload
    for (size_t n = 0; n < 2 * out.codes.size(); ++n) {  // stand-ins last: the first one's outputs are kept
      const size_t i = n % out.codes.size();
      if (!out.codes[i].refused.empty() || out.is_stand_in(i) != (n >= out.codes.size())) continue;
      const auto [found, fresh] = seen.try_emplace(loop::to_string(out.codes[i].loops), out.workloads.size());
      out.workload_of[i] = found->second;
      if (!fresh) continue;
      out.workloads.push_back(make_workload(task.program, plans[i], out.codes[i]));
      out.candidate_of.push_back(i);
    }
    return out;
  }

  void measure(size_t t, Prepared prepared) {
    const TuneTask& task = tasks_[t];
    const FileLock lock(tuner_.lock_file_, options().lock_seconds, [this] { return stopped(); });
    if (!lock.is_held() && !stopped() && !std::exchange(tuner_.told_of_disturbance_, true))
      notice(fmt::format("another compiler has measured for {} s: both measure on, and their times may be disturbed",
                         options().lock_seconds));
    if (!prepared.check->ok()) {
      notice(fmt::format("{} is not measured: {}", task.name, prepared.check->reason()));
      return;
    }
    CandidateCheck check = std::move(*prepared.check).value();
    if (const std::string failure = check.run_reference(*tuner_.measurer_); !failure.empty()) {
      notice(fmt::format("{} is not measured: {}", task.name, failure));
      tuner_.complete_ = false;
      return;
    }
    for (size_t w = 0; w < prepared.workloads.size(); ++w) {
      const loop::Program& loops = prepared.codes[prepared.candidate_of[w]].loops;
      check.prepare(loops, prepared.workloads[w]);
      if (prepared.is_stand_in(prepared.candidate_of[w])) prepared.workloads[w].wanted.clear();
      for (const std::string& constant : task.constants) {
        const int64_t b = buffer_index(loops, constant);
        if (b >= 0) prepared.workloads[w].buffers[static_cast<size_t>(b)].warmth = context_.weights;
      }
    }
    measure::MeasureOptions measure;
    measure.threads = options().threads;
    measure.rotate_bytes = rotate_bytes();
    measure.drop_ratio = options().drop_ratio;
    measure.check = [&](size_t w, const measure::Samples& samples) {
      return prepared.is_stand_in(prepared.candidate_of[w]) ? "" : check.check(samples);
    };
    measure.disagree = [&](std::span<const measure::Difference> found) { return check.disagree(found); };
    measure.stop = [this] { return stopped(); };
    take(t, prepared, tuner_.measurer_->measure(prepared.workloads, measure));
  }

  // More than the private caches of all cores hold; on a GPU, which rotates what a CPU flushes, than all caches hold.
  double rotate_bytes() const {
    const std::vector<MemoryLevel>& levels = context_.target.levels;
    double bytes = 0;
    for (size_t l = 0; l + 1 < levels.size(); ++l) {  // without memory
      const auto capacity = static_cast<double>(levels[l].capacity_bytes);
      if (!levels[l].shared) bytes += 2 * capacity * context_.target.units;
      if (levels[l].shared && is_gpu()) bytes += 2 * capacity;
    }
    return bytes;
  }

  void take(size_t t, const Prepared& prepared, const std::vector<Measured>& measured) {
    TuneResult& result = results_[t];
    result.measured.resize(tasks_[t].candidates.size());
    for (size_t i = 0; i < prepared.candidates.size(); ++i) {
      const size_t c = prepared.candidates[i], w = prepared.workload_of[i];
      const Measured now = w == kNone ? Measured{Outcome::kRefused, prepared.codes[i].refused, {}} : measured[w];
      if (now.outcome != Outcome::kNotMeasured && !prepared.is_stand_in(i)) result.measured[c] = now;
    }
    judge_stand_ins(t, prepared, measured);
    result.best = pick(result.measured);
    for (size_t i = 0; i < prepared.candidates.size(); ++i) {
      if (static_cast<int64_t>(prepared.candidates[i]) == result.best && !prepared.is_stand_in(i))
        tuner_.codes_[loop::to_string(prepared.codes[i].loops)] = prepared.codes[i].code;
    }
    store(t, prepared.candidates);
    report(tasks_[t], result);
  }

  void store(size_t t, std::span<const size_t> candidates) {
    std::vector<database::Record> records;
    for (const size_t c : candidates) {
      if (auto record = to_record(tasks_[t].candidates[c], results_[t].measured[c]))
        records.push_back(std::move(*record));
    }
    if (tuner_.database_ != nullptr && !records.empty())
      tuner_.database_->store(task_key(tasks_[t], context_, options()), records);
  }

  // A template takes as long as its kernel without epilogue at least. So the fastest of these alone may be worth
  // compiling, where it is faster than all candidates that were measured.
  void judge_stand_ins(size_t t, const Prepared& prepared, const std::vector<Measured>& measured) {
    std::vector<Measured>& known = results_[t].measured;
    double best = INFINITY, least = INFINITY;
    for (const Measured& m : known) best = least = std::min(best, time_of(m));
    size_t promising = kNone;
    for (size_t w = 0; w < measured.size(); ++w) {
      const size_t i = prepared.candidate_of[w];
      if (!prepared.is_stand_in(i)) continue;
      const double ns = time_of(measured[w]);
      Measured& now = known[prepared.candidates[i]] = measured[w];
      if (ns < INFINITY) now = {Outcome::kRefused, "", {}, now.effort};
      if (ns < INFINITY) now.reason = fmt::format("others take less than its {:.1f} us without epilogue", ns * 1e-3);
      if (ns < least) promising = i;
      least = std::min(least, ns);
    }
    if (promising == kNone) return;
    known[prepared.candidates[promising]] = {};
    promising_.push_back({t, prepared.candidates[promising], prepared.codes[promising].loops, least, best - least});
  }

  // nvcc takes a minute for a template: for a hundredth of the model's time at least.
  void drop_small_gains() {
    std::erase_if(promising_, [&](const Promising& p) {
      const double share = uses(tasks_[p.task]) * p.gained_ns / total_ns_;
      if (share >= options().whole_share / 5) return false;
      results_[p.task].measured[p.candidate].reason = fmt::format(
          "{:.1f} us without epilogue would gain {:.1f} % of the model's time: too little for nvcc (--measure-all)",
          p.ns * 1e-3, 100 * share);
      return true;
    });
  }

  // Compiles the templates that may win, as many at the same time as memory allows; tasks to be measured once more.
  // Where the compiler does not run, or has no room, the others compete without them, this time.
  std::vector<size_t> compile_promising() {
    std::vector<size_t> again;
#ifdef TW_HAVE_CUDA
    if (stopped()) return again;
    drop_small_gains();
    const auto codes = mapped(promising_, [&](const auto& p) { return CodeTask{p.loops, tasks_[p.task].name}; });
    std::vector<std::string> reasons;
    try {
      reasons = build_templates(codes, context_.target, [this] { return stopped(); });
    } catch (const std::runtime_error& error) {
      notice(fmt::format("no templates are compiled: {}", error.what()));
      tuner_.complete_ = false;
    }
    for (size_t i = 0; i < reasons.size(); ++i) {
      const size_t t = promising_[i].task, c = promising_[i].candidate;
      if (reasons[i].empty()) again.push_back(t);
      if (reasons[i].empty()) continue;
      results_[t].measured[c] = {Outcome::kRefused, reasons[i], {}};
      store(t, {&c, 1});
      report(tasks_[t], results_[t]);
    }
#endif
    return again;
  }

  void report(const TuneTask& task, const TuneResult& result) const {
    if (!options().event) return;
    double best_us = 0;
    for (size_t c = 0; c < result.measured.size(); ++c) {
      const Measured& m = result.measured[c];
      const double us = m.timing.best_decile_ns * 1e-3;
      if (m.outcome == Outcome::kMeasured && (best_us == 0 || us < best_us)) best_us = us;
      options().event({task.name, static_cast<int64_t>(c), static_cast<int64_t>(result.measured.size()), m,
                       task.candidates[c].predicted_us, task.candidates[c].trace, best_us});
    }
  }

  Tuner& tuner_;
  std::span<const TuneTask> tasks_;
  TuneContext context_;
  std::vector<TuneResult> results_;
  std::vector<Promising> promising_;
  double started_;
  double total_ns_ = 0;  // of all tasks by prediction
};

Tuner::Tuner(TunerOptions options) : options_(std::move(options)) {}

void Tuner::open_database() {
  if (opened_ || options_.database.empty()) return;
  opened_ = true;
  database_ = database::Database::open(options_.database, options_.notice);
  if (database_ != nullptr) lock_file_ = options_.database + ".measuring";
}

Tuner::Tuner(TunerOptions options, std::unique_ptr<measure::Measurer> measurer) : Tuner(std::move(options)) {
  measurer_ = std::move(measurer);
}

Tuner::~Tuner() = default;

// The GPU that candidates for `target` run on; an empty name for a CPU.
const Result<std::string>& Tuner::device(const TargetInfo& target) {
  if (!device_)
    device_ = target.kind == DeviceKind::kCuda ? measure::find_gpu(architecture(target)) : Result(std::string());
  return *device_;
}

bool Tuner::start(const TargetInfo& target) {
  if (measurer_ != nullptr) return true;
  if (tried_ || options_.worker.empty()) return false;
  tried_ = true;
  const std::string why = why_not_started(target);
  if (!why.empty() && options_.notice) options_.notice(fmt::format("nothing is measured: {}", why));
  return why.empty();
}

std::string Tuner::why_not_started(const TargetInfo& target) {
  const bool is_cpu = target.kind == DeviceKind::kCpu;
  const TargetInfo host = targets::find_target("cpu").info;
  const auto lacks = [&](const std::string& feature) { return !has_feature(host, feature); };
  if (is_cpu && std::ranges::any_of(target.features, lacks))
    return fmt::format("this machine does not run code for {}", target.name);
  if (!device(target).ok())
    return fmt::format("this machine does not run code for {}: {}", target.name, device(target).reason());
  measure::WorkerOptions limits;
  limits.command = options_.worker;
  if (!is_cpu) limits.command.push_back(architecture(target));
  limits.run_seconds = options_.run_seconds;
  auto measurer = std::make_unique<measure::WorkerMeasurer>(limits);
  const Result<int> threads = measurer->available();
  if (!threads.ok()) return threads.reason();
  measurer_ = std::move(measurer);
  return "";
}

const ProgramCode* Tuner::find_code(const loop::Program& program) const {
  const auto found = codes_.find(loop::to_string(program));
  return found == codes_.end() ? nullptr : &found->second;
}

std::vector<TuneResult> Tuner::choose(std::span<const TuneTask> tasks, const TuneContext& context) {
  return Session(*this, tasks, context).run();
}

}  // namespace tw::driver
