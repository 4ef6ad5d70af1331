#include "driver/tune/task_measurer.h"

#include "measure/cuda_executor.h"
#include "measure/worker_measurer.h"

namespace tw::driver {
namespace {

constexpr double kBriefWaitSeconds = 1;  // for the lock of measuring, once it was waited for in vain

// More than the private caches of all cores hold; on a GPU, which rotates what a CPU flushes, than all caches hold.
double rotate_bytes(const TargetInfo& target) {
  double bytes = 0;
  for (size_t l = 0; l + 1 < target.levels.size(); ++l) {  // without memory
    const MemoryLevel& level = target.levels[l];
    const auto capacity = static_cast<double>(level.capacity_bytes);
    if (!level.shared) bytes += 2 * capacity * target.compute_units;
    if (level.shared && target.kind == DeviceKind::kCuda) bytes += 2 * capacity;
  }
  return bytes;
}

// Inputs, what is wanted of the outputs, and where constants are.
void complete_workloads(const TuneTask& task, const CandidateCheck& check, measure::CacheState weights,
                        PreparedTask& prepared) {
  for (size_t w = 0; w < prepared.workloads.size(); ++w) {
    measure::Workload& work = prepared.workloads[w];
    const size_t i = prepared.candidate_of[w];
    const loop::Program& loops = prepared.codes[i].loops;
    check.prepare(loops, work);
    if (prepared.is_mainloop_only(i)) work.wanted.clear();
    for (const std::string& constant : task.constants) {
      const int64_t b = buffer_index(loops, constant);
      if (b >= 0) work.buffers[static_cast<size_t>(b)].cache_state = weights;
    }
  }
}

}  // namespace

measure::CacheState cache_state_of_weights(double bytes, const TargetInfo& target) {
  // Activations take their part of each cache, half of it by this guess.
  constexpr double kShare = 0.5;
  double in_private = 0, in_any = 0;
  for (size_t l = 0; l + 1 < target.levels.size(); ++l) {  // without memory
    const MemoryLevel& level = target.levels[l];
    const double capacity =
        kShare * static_cast<double>(level.capacity_bytes) * (level.shared ? 1 : target.compute_units);
    if (!level.shared) in_private = std::max(in_private, capacity);
    in_any = std::max(in_any, capacity);
  }
  if (bytes <= in_private) return measure::CacheState::kHot;
  return bytes <= in_any ? measure::CacheState::kL2Cold : measure::CacheState::kCold;
}

TaskMeasurer::TaskMeasurer(const TunerOptions& options, std::unique_ptr<measure::Measurer> measurer)
    : options_(options), measurer_(std::move(measurer)) {}

void TaskMeasurer::notice(const std::string& text) const {
  if (options_.notice) options_.notice(text);
}

const Result<std::string>& TaskMeasurer::device(const TargetInfo& target) {
  if (!device_)
    device_ = target.kind == DeviceKind::kCuda ? measure::find_gpu(architecture(target)) : Result(std::string());
  return *device_;
}

bool TaskMeasurer::start(const TargetInfo& target) {
  if (measurer_ != nullptr) return true;
  if (tried_ || options_.worker.empty()) return false;
  tried_ = true;
  const std::string why = why_not_started(target);
  if (!why.empty()) notice(fmt::format("nothing is measured: {}", why));
  return why.empty();
}

std::string TaskMeasurer::why_not_started(const TargetInfo& target) {
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

// Whoever kept the lock for that long is stopped, or busy with what ours no longer disturbs much: once is enough.
std::unique_ptr<FileLock> TaskMeasurer::take_turn(const Stop& stop) {
  LockWait wait{options_.lock_seconds, stop};
  if (told_of_disturbance_) wait.seconds = std::min(wait.seconds, kBriefWaitSeconds);
  wait.notice = [this](const std::string& sentence) {
    if (!std::exchange(told_of_waiting_, true)) notice(sentence + "; both would disturb each other's times");
  };
  auto lock = std::make_unique<FileLock>(lock_file_, wait);
  if (!lock->is_held() && !stop() && !std::exchange(told_of_disturbance_, true))
    notice(fmt::format("another compiler has measured for {} s: both measure on, and their times may be disturbed",
                       options_.lock_seconds));
  return lock;
}

Result<std::vector<measure::Measured>> TaskMeasurer::measure(const TuneTask& task, PreparedTask& prepared,
                                                             const TuneContext& context, const Stop& stop) {
  if (!prepared.check->ok()) return declined("{}", prepared.check->reason());
  CandidateCheck check = std::move(*prepared.check).value();
  const double start = measure::now_ns();
  const std::string failure = check.run_reference(*measurer_);
  reference_seconds_ += (measure::now_ns() - start) * 1e-9;
  if (!failure.empty()) return declined("{}", failure);
  complete_workloads(task, check, context.weights, prepared);
  measure::MeasureOptions measure;
  measure.threads = options_.threads;
  measure.rotate_bytes = rotate_bytes(context.target);
  measure.drop_ratio = options_.drop_ratio;
  measure.check = [&](size_t w, const measure::Samples& samples) {
    return prepared.is_mainloop_only(prepared.candidate_of[w]) ? "" : check.check(samples);
  };
  measure.disagree = [&](std::span<const measure::Difference> found) { return check.disagree(found); };
  measure.stop = stop;
  return measurer_->measure(prepared.workloads, measure);
}

}  // namespace tw::driver
