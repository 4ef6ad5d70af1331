#include "driver/tune/shortlist.h"

#include <cmath>

#include "cost/units.h"

namespace tw::driver {
namespace {

constexpr size_t kMin = 3;  // candidates of a group that are measured
constexpr double kLightOnGpu =
    0.2;  // of TunerOptions::light_us: all kernels of a network of batch 1 are so short there

// Nanoseconds that `program` takes at least on `target`: its flop at peak, or its inputs and outputs at the bandwidth
// of memory. A rough figure: it only says what is worth measuring.
double estimate_ns(const te::Program& program, const TargetInfo& target) {
  double bytes = 0;
  const auto add = [&](const te::Tensor& t) { bytes += static_cast<double>(num_elements(t.shape) * t.type.bytes()); };
  for (const te::Tensor& t : program.inputs) add(t);
  for (const std::string& name : program.outputs) add(program.tensor(name));
  const double measured = target.levels.empty() ? 0 : target.levels.back().all_per_ns;
  return std::max(contraction_flop(program) / (cost::peak_flop_per_ns(target) * std::max(1, target.compute_units)),
                  bytes / (measured > 0 ? measured : cost::kNominalBytesPerNs));
}

double uses(const TuneTask& task) { return static_cast<double>(std::max<int64_t>(1, task.uses)); }

}  // namespace

Shortlist::Shortlist(std::span<const TuneTask> tasks, const TargetInfo& target, const TunerOptions& options)
    : tasks_(tasks), target_(target), options_(options) {
  for (const TuneTask& task : tasks_) total_ns_ += total_weight(task);
}

std::vector<size_t> Shortlist::tasks() const {
  const double light_ns = options_.light_us * 1e3 * (target_.kind == DeviceKind::kCuda ? kLightOnGpu : 1);
  std::vector<size_t> order;
  for (size_t t = 0; t < tasks_.size(); ++t) {
    const TuneTask& task = tasks_[t];
    if (task.is_timed || (task.candidates.size() > 1 && weight(task) >= light_ns)) order.push_back(t);
  }
  std::ranges::stable_sort(order,
                           [&](size_t a, size_t b) { return total_weight(tasks_[a]) > total_weight(tasks_[b]); });
  return order;
}

bool Shortlist::has(size_t t, size_t candidate) const {
  const TuneTask& task = tasks_[t];
  return candidate < considered(task) || candidate >= task.candidates.size() - task.joined;
}

double Shortlist::share(size_t t, double ns) const { return uses(tasks_[t]) * ns / total_ns_; }

double Shortlist::weight(const TuneTask& task) const {
  const double predicted = task.candidates.front().predicted_us * 1e3;
  return predicted > 0 ? predicted : estimate_ns(task.program, target_);
}

double Shortlist::total_weight(const TuneTask& task) const { return weight(task) * uses(task); }

// How many of the first candidates are measured: what a group can win is bounded by its share of the model's time. So
// a model has at most candidates / whole_share of them besides kMin a task, 200 for the defaults, however many
// groups it has: NVRTC takes half a second for one, half a minute of 16 CPUs for 400.
size_t Shortlist::considered(const TuneTask& task) const {
  if (task.owner_waits) return 0;
  const auto all = static_cast<double>(task.candidates.size() - task.joined);
  const double whole = options_.whole_share * total_ns_;
  const double part = total_weight(task) < whole ? total_weight(task) / whole : 1;
  const auto wanted = static_cast<size_t>(std::ceil(all * part));
  return std::min(task.candidates.size() - task.joined, std::max(kMin, wanted));
}

}  // namespace tw::driver
