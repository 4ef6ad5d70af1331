// tilewright bench MODEL: latency by the protocol it prints.
#include <algorithm>
#include <numeric>

#include "artefact/artefact_graph.h"
#include "driver/machine/peak.h"
#include "support/error.h"
#include "targets/registry.h"
#include "tilewright/arrays.h"
#include "tilewright/explained.h"
#include "tilewright/inputs.h"
#include "tilewright/latency.h"
#include "tilewright/load.h"
#include "tilewright/verb.h"

namespace tw::cli {
namespace {

nlohmann::ordered_json statistics(const std::vector<double>& sorted) {
  const double mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / static_cast<double>(sorted.size());
  return {{"min", sorted.front()},
          {"p10", percentile(sorted, 10)},
          {"median", percentile(sorted, 50)},
          {"mean", mean},
          {"p90", percentile(sorted, 90)},
          {"p95", percentile(sorted, 95)},
          {"p99", percentile(sorted, 99)},
          {"max", sorted.back()},
          {"n", sorted.size()}};
}

void print_profile(const GlobalOptions& global, std::vector<artefact::StepTime> steps) {
  double total = 0;
  for (const artefact::StepTime& s : steps) total += s.microseconds;
  std::stable_sort(steps.begin(), steps.end(),
                   [](const auto& a, const auto& b) { return a.microseconds > b.microseconds; });
  for (const artefact::StepTime& s : steps)
    say(global, fmt::format("{:10.1f} us {:5.1f} %  {}", s.microseconds, 100 * s.microseconds / total, s.name));
}

std::string track_of(const artefact::Session& session, bool on_gpu) {
  return on_gpu ? "stream" : fmt::format("{} thread{}", session.threads(), session.threads() == 1 ? "" : "s");
}

double measure_peak(const artefact::Session& session) {
  return driver::machine::measure_fma_peak(targets::find_target("cpu").info, session.threads());
}

int bench(const GlobalOptions& global, const VerbOptions& options) {
  const LoadedModel model = load_model(global, options);
  const format::Artefact artefact = parse_artefact(options.model, model.artefact);
  const bool on_gpu = artefact.manifest().kind() == format::TargetKind::kCuda;
  if (on_gpu && options.peak) throw UsageError("--peak is the FMA peak of a CPU; this model is for a GPU");
  const bool with_profile = options.profile || !options.trace_out.empty();
  artefact::Session session = open_session(model, {options.threads, with_profile, options.level});
  InputOptions inputs = options.inputs;
  if (inputs.random.empty()) inputs.random = "seed=0";
  session.bind(gather_inputs(inputs, session));
  say(global,
      fmt::format("protocol: {:.0f} ms warm-up, then {:.1f} s and at least {} iterations, {} threads, code for {}, "
                  "inputs in {}",
                  options.warm_up_ms, options.duration_s, options.iterations, session.threads(), session.target(),
                  on_gpu ? "the GPU's memory, times between events on its stream" : "host memory"));
  const double peak_before = options.peak ? measure_peak(session) : 0;
  const nlohmann::ordered_json latency = statistics(measure_latency(session, options));
  nlohmann::ordered_json rate;
  const size_t entry = artefact::manifest_entry(artefact.manifest(), session.target(), session.bound_entry());
  const auto flop = static_cast<double>(artefact.manifest().entries[entry].flop);
  if (options.peak && flop > 0) {
    // The peak is the best of many samples, before and after: it compares with the best decile. The median has what
    // other programs took away.
    const double peak = std::max(peak_before, measure_peak(session));
    const double best = flop / latency["p10"].get<double>() / 1e6;
    const double median = flop / latency["median"].get<double>() / 1e6;
    rate = {{"fma_peak_gflops", peak},
            {"gflops", {{"p10", best}, {"median", median}}},
            {"share_of_peak", {{"p10", best / peak}, {"median", median / peak}}}};
    say(global, fmt::format("sums of products: {:.1f} GFLOP/s at the best decile, {:.1f} at the median = {:.1f} % and "
                            "{:.1f} % of the FMA peak of {:.1f} measured now",
                            best, median, 100 * best / peak, 100 * median / peak, peak));
  }
  if (global.json) {
    print_json("tilewright.bench.v1", {{"model", options.model},
                                       {"threads", session.threads()},
                                       {"level", session.target()},
                                       {"inputs_on", on_gpu ? "device" : "host"},
                                       {"warm_up_ms", options.warm_up_ms},
                                       {"duration_s", options.duration_s},
                                       {"latency_ms", latency},
                                       {"rate", rate}});
  } else {
    std::string line = "latency ms:";
    for (const auto& [key, value] : latency.items())
      line += key == "n" ? fmt::format("  n {}", value.get<int64_t>())
                         : fmt::format("  {} {:.4f}", key, value.get<double>());
    say(global, line);
  }
  if (!with_profile) return kOk;
  session.run_bound();
  const std::vector<artefact::StepTime> steps = session.last_profile();
  if (options.profile) print_profile(global, steps);
  if (!options.trace_out.empty()) write_trace(options, steps, track_of(session, on_gpu));
  return kOk;
}

}  // namespace

std::vector<double> measure_latency(artefact::Session& session, const VerbOptions& options) {
  const double warm_until = now_seconds() + options.warm_up_ms / 1e3;
  double last_ms = 0;
  do last_ms = session.measure_bound(1).front();
  while (now_seconds() < warm_until);
  const size_t row = runs_in_a_row(last_ms);
  std::vector<double> times;
  const double until = now_seconds() + options.duration_s;
  while (now_seconds() < until || times.size() < static_cast<size_t>(options.iterations)) {
    const std::vector<double> more = session.measure_bound(row);
    times.insert(times.end(), more.begin(), more.end());
  }
  std::sort(times.begin(), times.end());
  return times;
}

void add_bench(Application& application) {
  add_verb(application,
           {"bench", "Example: tilewright bench resnet50.tw --threads 1\n\nMeasures the latency of a model.", "MODEL",
            "Artefact (.tw) or ONNX model", bench});
}

}  // namespace tw::cli
