#include "driver/tune/tuner.h"

#include <deque>
#include <future>

#include "driver/tune/task_results.h"
#include "support/join.h"
#ifdef TW_HAVE_CUDA
#include "driver/code/template_code.h"
#include "templates/library.h"
#endif

namespace tw::driver {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int64_t runs_of_nvcc() {
#ifdef TW_HAVE_CUDA
  return templates::TemplateLibrary::compilations();
#else
  return 0;
#endif
}

PreparedTask take_first(std::deque<std::future<PreparedTask>>& coming) {
  std::future<PreparedTask> first = std::move(coming.front());
  coming.pop_front();
  return first.get();
}

}  // namespace

/// One call of choose(): what is done when, and when it ends.
class Tuner::Session {
 public:
  Session(Tuner& tuner, std::span<const TuneTask> tasks, const TuneContext& context)
      : tuner_(tuner),
        tasks_(tasks),
        context_(context),
        started_(now_seconds()),
        shortlist_(tasks, context_.target, tuner.options_),
        results_(tasks, context_, tuner.options_, shortlist_) {
    if (const Result<std::string>& device = tuner.measurer_.device(context.target); device.ok())
      context_.device = *device;
    context_.tools.cubins.stop_when([this] { return stopped(); });
  }
  ~Session() { context_.tools.cubins.stop_when({}); }

  std::vector<TuneResult> run() {
    const std::vector<size_t> heavy = shortlist_.tasks();
    const std::vector<size_t> open = results_.look_up(heavy, heavy.empty() ? nullptr : tuner_.open_database());
    if (!open.empty()) {
      const bool is_started = tuner_.measurer_.start(context_.target);
      tuner_.complete_ = tuner_.complete_ && is_started;
      if (is_started) left_ = std::ssize(open);
      tuner_.profiling_.groups += left_;
      if (is_started) measure_all(open);
      tuner_.profiling_.groups_left += left_;
      if (const std::vector<size_t> again = compile_promising(); !again.empty()) measure_all(again);
    }
    tuner_.profiling_.seconds += now_seconds() - started_;
    return results_.take_all();
  }

 private:
  const TunerOptions& options() const { return tuner_.options_; }
  bool is_gpu() const { return context_.target.kind == DeviceKind::kCuda; }

  bool stopped() const {
    if (options().interrupted && options().interrupted()) return true;
    return options().budget_seconds > 0 &&
           tuner_.profiling_.seconds + now_seconds() - started_ > options().budget_seconds;
  }

  void notice(const std::string& text) const {
    if (options().notice) options().notice(text);
  }

  // Tasks whose code is made while an earlier one is measured. Measuring on a GPU leaves the CPUs to code generation,
  // and a task has fewer candidates than there are CPUs; on a CPU there must be cores that it does not measure with.
  size_t ahead() const {
    constexpr size_t kTasksAhead = 3;
    if (is_gpu()) return kTasksAhead;
    return options().threads == 1 && context_.target.compute_units > 1 ? 1 : 0;
  }

  void measure_all(const std::vector<size_t>& open) {
    const int64_t templates = runs_of_nvcc();
    const double references = tuner_.measurer_.reference_seconds();
    measure_each(open);
    tuner_.profiling_.reference_seconds += tuner_.measurer_.reference_seconds() - references;
    tuner_.profiling_.kernels_compiled += context_.counts->kernels.exchange(0);
    tuner_.profiling_.references_compiled += context_.counts->references.exchange(0);
    tuner_.profiling_.templates_compiled += runs_of_nvcc() - templates;
  }

  void measure_each(const std::vector<size_t>& open) try {
    const auto total = static_cast<int64_t>(open.size());
    // On a CPU code ahead is made by one core, beside the one that measures.
    const int threads = is_gpu() ? context_.tools.threads : 1;
    std::deque<std::future<PreparedTask>> coming;
    size_t begun = 0;
    int64_t done = 0;
    for (; done < total && !stopped(); ++done) {
      const auto now = static_cast<size_t>(done);
      if (context_.progress) context_.progress(done, total);
      if (coming.empty()) begun = now + 1;
      const double before = now_seconds();
      PreparedTask prepared = coming.empty() ? prepare(open[now], context_.tools.threads)() : take_first(coming);
      tuner_.profiling_.code_seconds += now_seconds() - before;
      for (; begun < open.size() && coming.size() < ahead(); ++begun) {
        coming.push_back(std::async(std::launch::async, prepare(open[begun], threads)));
      }
      measure(open[now], std::move(prepared));
      if (!stopped()) --left_;
    }
    tuner_.complete_ = tuner_.complete_ && !stopped();
    if (context_.progress) context_.progress(total, total);
  } catch (const Stopped&) {
    tuner_.complete_ = false;
  }

  // Makes code of what is wanted of the task by now, in whatever thread calls it.
  std::function<PreparedTask()> prepare(size_t t, int threads) const {
    return
        [this, t, wanted = results_.wanted(t), threads] { return prepare_task(tasks_[t], wanted, context_, threads); };
  }

  // Others wait for our turn to end until the results are stored, too.
  void measure(size_t t, PreparedTask prepared) {
    const TaskMeasurer::Stop stop = [this] { return stopped(); };
    const std::unique_ptr<FileLock> turn = tuner_.measurer_.take_turn(stop);
    const Result<std::vector<measure::Measured>> measured =
        tuner_.measurer_.measure(tasks_[t], prepared, context_, stop);
    if (!measured.ok()) {
      notice(fmt::format("{} is not measured: {}", tasks_[t].name, measured.reason()));
      if (prepared.check->ok()) tuner_.complete_ = false;  // what has no reference is never measured
      return;
    }
    tuner_.profiling_.candidates += std::ssize(prepared.workloads);
    results_.take(t, prepared, *measured);
    keep_code(prepared, results_.of(t).best);
  }

  void keep_code(const PreparedTask& prepared, int64_t best) {
    for (size_t i = 0; i < prepared.candidates.size(); ++i) {
      if (static_cast<int64_t>(prepared.candidates[i]) == best && !prepared.is_mainloop_only(i))
        tuner_.codes_[loop::to_string(prepared.codes[i].loops)] = prepared.codes[i].code;
    }
  }

  // Compiles the templates that may win, as many at the same time as memory allows; tasks to be measured once more.
  // Where the compiler does not run, or has no room, the others compete without them, this time.
  std::vector<size_t> compile_promising() {
    std::vector<size_t> again;
#ifdef TW_HAVE_CUDA
    if (stopped()) return again;
    const std::vector<Promising> promising = results_.take_promising();
    const auto codes = mapped(promising, [&](const auto& p) { return CodeTask{p.loops, tasks_[p.task].name}; });
    std::vector<std::string> reasons;
    const int64_t before = runs_of_nvcc();
    try {
      reasons = build_templates(codes, context_.target, [this] { return stopped(); });
    } catch (const std::runtime_error& error) {
      notice(fmt::format("no templates are compiled: {}", error.what()));
      tuner_.complete_ = false;
    }
    tuner_.profiling_.winners_compiled += runs_of_nvcc() - before;
    for (size_t i = 0; i < reasons.size(); ++i) {
      if (reasons[i].empty()) {
        again.push_back(promising[i].task);
      } else {
        results_.decline(promising[i].task, promising[i].candidate, reasons[i]);
      }
    }
#endif
    return again;
  }

  Tuner& tuner_;
  std::span<const TuneTask> tasks_;
  TuneContext context_;
  double started_;
  int64_t left_ = 0;  // groups whose turn has not ended
  Shortlist shortlist_;
  TaskResults results_;
};

Tuner::Tuner(TunerOptions options) : Tuner(std::move(options), nullptr) {}

Tuner::Tuner(TunerOptions options, std::unique_ptr<measure::Measurer> measurer)
    : options_(std::move(options)), measurer_(options_, std::move(measurer)) {}

database::Database* Tuner::open_database() {
  if (opened_ || options_.database.empty()) return database_.get();
  opened_ = true;
  database_ = database::Database::open(options_.database, options_.notice);
  if (database_ != nullptr) measurer_.take_turns_by(options_.database + ".measuring");
  return database_.get();
}

const ProgramCode* Tuner::find_code(const loop::Program& program, const std::string& group) const {
  const auto found = codes_.find(loop::to_string(program));
  if (found == codes_.end()) return nullptr;
  const ProgramCode& code = found->second;
  return code.group.empty() || code.group == group ? &code : nullptr;
}

std::vector<TuneResult> Tuner::choose(std::span<const TuneTask> tasks, const TuneContext& context) {
  return Session(*this, tasks, context).run();
}

}  // namespace tw::driver
