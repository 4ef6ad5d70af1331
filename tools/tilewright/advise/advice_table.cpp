#include "tilewright/advise/advice_table.h"

#include <algorithm>
#include <map>

#include "driver/code/generate.h"
#include "driver/compile.h"
#include "driver/entry_passes.h"
#include "ops/list.h"
#include "support/join.h"
#include "tilewright/interrupt.h"
#include "tilewright/latency.h"
#include "tilewright/values/inputs.h"

namespace tw::cli {
namespace {

constexpr double kSeconds = 2;       // that two models run for, in turns
constexpr double kMostSeconds = 10;  // where others disturb them
constexpr double kSpread = 0.1;      // between the quartiles of quiet turns
constexpr size_t kMinTurns = 10;
constexpr double kPerMs = 1e3;  // us

double percentile_of(std::vector<double> times, double p) {
  std::ranges::sort(times);
  return percentile(times, p);
}

bool is_disturbed(const std::vector<double>& ratios) {
  return percentile_of(ratios, 75) > (1 + kSpread) * percentile_of(ratios, 25);
}

struct InTurns {
  double ms = 0;      // of the first model
  double slower = 0;  // how many times as long the second one takes
};

// Neighbouring turns are disturbed alike: of each turn the fastest run counts, and of the turns the median of how much
// longer the second model takes.
InTurns run_in_turns(artefact::Session& before, artefact::Session& after) {
  artefact::Session* sessions[] = {&before, &after};
  size_t row[2];
  for (size_t s = 0; s < 2; ++s) {
    sessions[s]->measure_bound(2);  // warm
    row[s] = runs_in_a_row(sessions[s]->measure_bound(1).front(), kLongRowMs);
  }
  std::vector<double> fastest, ratios;
  const double began = now_seconds();
  const auto spent = [&] { return now_seconds() - began; };
  while (spent() < kSeconds || ratios.size() < kMinTurns || (spent() < kMostSeconds && is_disturbed(ratios))) {
    double best[2];
    for (size_t s = 0; s < 2; ++s) best[s] = std::ranges::min(sessions[s]->measure_bound(row[s]));
    fastest.push_back(best[0]);
    ratios.push_back(best[1] / best[0]);
  }
  return {percentile_of(fastest, 10), percentile_of(ratios, 50)};
}

}  // namespace

// The host's parameters are asked for once.
std::vector<targets::Target> AdviceTable::one_target(driver::CompileOptions& options) {
  driver::settle(options);
  std::vector<targets::Target> targets = driver::machine::resolve_targets(options.target, options.machine_model);
  if (targets.size() > 1) throw UsageError("--target {}: advice is for one target at a time", options.target);
  if (options.imports.size() > 1)
    throw UsageError("advice is for one combination of shapes at a time: --shape and --dim take one value here");
  if (options.target == "cpu") options.machine_model.known = targets.front().info;
  options.machine_model.notice = {};
  return targets;
}

AdviceTable::AdviceTable(const std::string& model, const driver::CompileOptions& options,
                         const advise::AdviceOptions& advice, uint64_t seed, Progress& progress)
    : ops_(ops::all_ops()),
      options_(options),
      seed_(seed),
      progress_(progress),
      targets_(one_target(options_)),
      model_(frontend::EditableModel::read(model, options_.imports.front().link_folders)),
      predictor_(options_, targets_.front()) {
  find_device();
  add_rows(advice);
}

void AdviceTable::find_device() {
  const TargetInfo& info = target().info;
  if (options_.no_measure) not_measured_ = "--no-measure";
  if (!options_.no_measure && info.kind == DeviceKind::kCuda) {
    const Result<std::string> gpu = driver::find_gpu(info.name);
    if (!gpu.ok()) not_measured_ = gpu.reason();
  }
}

advise::Cost AdviceTable::cost_of(const frontend::EditableModel& model) {
  return predictor_.cost(model.import(ops_, options_.imports.front()).graph);
}

void AdviceTable::add_rows(const advise::AdviceOptions& wanted) {
  const graph::Graph graph = model_.import(ops_, options_.imports.front()).graph;
  cost_ = predictor_.cost(graph);
  const transform::TransformContext context = driver::transform_context(ops_, target().info, options_, {});
  std::vector<advise::Advice> all = advise::find_advice(model_, graph, context, wanted);
  const auto total = static_cast<int64_t>(all.size());
  for (int64_t i = 0; i < total; ++i) {
    progress_("predict", i, total);
    advise::Advice& advice = all[static_cast<size_t>(i)];
    try {
      const advise::Cost cost = cost_of(model_.with(advice.rewrites, seed_));
      rows_.push_back({std::move(advice), cost});
    } catch (const UserError& error) {
      progress_.clear();
      print_error("tilewright: note: left out: {}: {}\n", advice.what, error.what());
    }
  }
  progress_("predict", total, total);
}

double AdviceTable::scale() const { return network_ms_ && cost_.us > 0 ? *network_ms_ * kPerMs / cost_.us : 1; }

std::vector<size_t> AdviceTable::best_of_each_kind() const {
  std::map<advise::AdviceKind, size_t> best;
  for (size_t r = 0; r < rows_.size(); ++r) {
    const auto [found, fresh] = best.try_emplace(rows_[r].advice.kind, r);
    if (rows_[r].cost.us < rows_[found->second].cost.us) found->second = r;
  }
  return mapped(best, [](const auto& entry) { return entry.second; });
}

artefact::Session AdviceTable::start(const frontend::EditableModel& model) const {
  const driver::Compiled compiled = driver::compile_imported({model.import(ops_, options_.imports.front())}, options_);
  artefact::Session session =
      artefact::Session::load_memory(driver::artefact_bytes(compiled), {options_.tuning.threads, false});
  session.bind(gather_inputs({{}, "seed=0", ""}, session));
  return session;
}

void AdviceTable::start_given() {
  if (!given_) given_ = start(model_);
}

void AdviceTable::measure(const frontend::EditableModel& changed, AdviceRow& row) {
  start_given();
  artefact::Session session = start(changed);
  const InTurns turns = run_in_turns(*given_, session);
  row.slower = turns.slower;
  network_ms_ = std::min(network_ms_.value_or(turns.ms), turns.ms);
}

void AdviceTable::measure(std::span<const size_t> rows) {
  int64_t done = 0;
  for (const size_t r : rows) {
    if (interrupted()) return;
    progress_("advice", done++, static_cast<int64_t>(rows.size()));
    measure(model_.with(rows_[r].advice.rewrites, seed_), rows_[r]);
  }
}

AdviceTable::Combined AdviceTable::combine(std::span<const size_t> rows) {
  const auto chosen = mapped(rows, [&](size_t r) -> const advise::Advice* { return &rows_[r].advice; });
  const std::string numbers = fmt::format("{}", fmt::join(mapped(rows, [](size_t r) { return r + 1; }), ", "));
  AdviceRow row;
  row.advice = {chosen.front()->kind, fmt::format("advice {}", numbers), {}, advise::joined_rewrites(chosen)};
  Combined combined{model_, std::move(row)};
  try {
    combined.model = model_.with(combined.row.advice.rewrites, seed_);
    combined.row.cost = cost_of(combined.model);
  } catch (const UserError& error) {
    throw UsageError("--apply: advice {} does not go together: {}; apply one, then ask for advice on the new model",
                     numbers, error.what());
  }
  if (not_measured_.empty()) measure(combined.model, combined.row);
  return combined;
}

}  // namespace tw::cli
