#include "driver/tune/tuning_records.h"

#include <cmath>
#include <filesystem>

#include "driver/machine/parameters_file.h"
#include "measure/protocol.h"

namespace tw::driver {
namespace {

using measure::Effort;
using measure::Measured;
using measure::Outcome;

// What runs candidates: a GPU, or this CPU as code for the target sees it. The sizes of caches say how constants are
// kept out of them.
std::string machine_text(const TuneContext& context) {
  const TargetInfo& target = context.target;
  std::string text = fmt::format("target {} {} {}", target.name, target.compute_units, fmt::join(target.features, " "));
  for (size_t l = 0; l + 1 < target.levels.size(); ++l) text += fmt::format(" {}", target.levels[l].capacity_bytes);
  const std::string device = target.kind == DeviceKind::kCpu ? targets::host_cpu().name : context.device;
  return fmt::format("{}\ndevice {}\n", text, device);
}

std::optional<Outcome> parse_outcome(const std::string& name) {
  for (int o = 0; o <= static_cast<int>(Outcome::kNotMeasured); ++o) {
    if (measure::outcome_name(static_cast<Outcome>(o)) == name) return static_cast<Outcome>(o);
  }
  return std::nullopt;
}

}  // namespace

int64_t database_revision(const std::string& path) {
  std::error_code missing;
  if (path.empty() || !std::filesystem::is_regular_file(path, missing)) return 0;
  const std::unique_ptr<database::Database> database = database::Database::open_existing(path);
  return database == nullptr ? 0 : database->revision();
}

std::string target_text(const TargetInfo& t) {
  std::string text = fmt::format("{} {} {} {} ", t.name, t.vector_bytes, t.vector_registers, t.compute_units);
  for (const std::string& feature : t.features) text += feature + " ";
  text += t.parameters_from;
  text += machine::parameters_text(t, "null");
  std::erase(text, '\n');
  return text;
}

database::TaskKey task_key(const TuneTask& task, const TuneContext& context, const TunerOptions& options) {
  std::string program = te::to_string(task.program);
  for (const std::string& constant : task.constants) program += fmt::format("constant {}\n", constant);
  constexpr std::string_view kCacheStates[] = {"warm", "rotated", "flushed"};
  const auto cache_state = static_cast<size_t>(context.weights);
  std::string environment = code_versions(context.target) + machine_text(context);
  environment += fmt::format("protocol {} {}\nthreads {}\nweights {}\n", measure::kMeasuringProtocol,
                             measure::kRunnerBuild, options.threads, kCacheStates[cache_state]);
  for (const std::string& pass : context.group.lower.disabled) environment += fmt::format("without {}\n", pass);
  return {std::move(program), std::move(environment)};
}

std::optional<database::Record> to_record(const plan::GroupPlan& plan, const Measured& m) {
  if (m.outcome == Outcome::kNotMeasured || m.effort == Effort::kCutShort) return std::nullopt;
  return database::Record{plan.family,
                          plan::layouts_text(plan),
                          schedule::to_string(plan.schedule),
                          plan.predicted_us,
                          std::string(measure::outcome_name(m.outcome)),
                          m.reason,
                          m.timing.best_decile_ns * 1e-3,
                          m.timing.median_ns * 1e-3,
                          m.timing.samples,
                          m.timing.quiet_share,
                          m.outcome == Outcome::kMeasured && m.effort == Effort::kDropped};
}

std::vector<Measured> known_results(const std::vector<plan::GroupPlan>& candidates,
                                    const std::vector<database::Record>& records, double drop_ratio) {
  std::vector<Measured> known(candidates.size());
  double best_ns = INFINITY;
  for (size_t c = 0; c < candidates.size(); ++c) {
    const std::string layouts = plan::layouts_text(candidates[c]), text = schedule::to_string(candidates[c].schedule);
    const auto same = [&](const database::Record& r) { return r.schedule == text && r.layouts == layouts; };
    const auto record = std::ranges::find_if(records, same);
    if (record == records.end()) continue;
    known[c].outcome = parse_outcome(record->outcome).value_or(Outcome::kNotMeasured);
    known[c].reason = record->reason;
    known[c].timing = {record->best_us * 1e3, record->median_us * 1e3, record->samples, record->quiet_share};
    known[c].effort = record->is_rough ? Effort::kDropped : Effort::kWhole;
    if (known[c].outcome == Outcome::kMeasured && !record->is_rough)
      best_ns = std::min(best_ns, known[c].timing.best_decile_ns);
  }
  for (Measured& m : known) {
    if (m.effort == Effort::kDropped && (m.timing.best_decile_ns <= best_ns || !std::isfinite(drop_ratio))) m = {};
  }
  return known;
}

}  // namespace tw::driver
