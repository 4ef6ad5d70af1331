// tilewright bench MODEL: latency by the protocol it prints.
#include <algorithm>
#include <numeric>

#include "artefact/artefact_graph.h"
#include "driver/machine/measure.h"
#include "support/error.h"
#include "support/text.h"
#include "targets/registry.h"
#include "tilewright/explained.h"
#include "tilewright/latency.h"
#include "tilewright/load.h"
#include "tilewright/values/arrays.h"
#include "tilewright/values/inputs.h"
#include "tilewright/verb.h"

namespace tw::cli {
namespace {

constexpr double kWarnedShare = 0.1;  // of disturbed runs: above it the median is of other programs, too

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

// Whether the times can be compared with others.
void report_noise(const GlobalOptions& global, const Times& times) {
  const double disturbed = 1 - times.quiet_share;
  if (disturbed <= kWarnedShare) return;
  print_error(
      "tilewright: warning: other programs disturbed {:.0f} % of the runs: compare p10 ({:.4f} ms), not the "
      "median, or measure again on an idle machine\n",
      100 * disturbed, percentile(times.ms, 10));
}

std::string track_of(const artefact::Session& session) {
  return session.is_on_gpu() ? "stream" : count_text(session.threads(), "thread");
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
  artefact::Session session =
      open_session(global, model, {options.threads, with_profile, options.level, options.inputs.function});
  InputOptions inputs = options.inputs;
  if (inputs.random.empty()) inputs.random = "seed=0";
  session.bind(gather_inputs(inputs, session));
  say(global,
      fmt::format("protocol: {} warm-up, then {} and at least {}, {}, code for {}, inputs in {}",
                  time_text(options.warm_up_ms / 1e3), time_text(options.duration_s),
                  count_text(options.iterations, "run"), count_text(session.threads(), "thread"), session.target(),
                  on_gpu ? "the GPU's memory, times between events on its stream" : "host memory"));
  if (const std::string entry = bound_entry_text(session); !entry.empty()) say(global, entry);
  const double peak_before = options.peak ? measure_peak(session) : 0;
  const Times times = measure_latency(session, options);
  const nlohmann::ordered_json latency = statistics(times.ms);
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
    say(global, fmt::format("rate of multiplying and adding: {:.1f} GFLOP/s at p10 ({:.1f} % of the FMA peak), {:.1f} "
                            "at the median ({:.1f} %); the peak is {:.1f}, measured now",
                            best, 100 * best / peak, median, 100 * median / peak, peak));
  }
  if (global.json) {
    print_json("tilewright.bench.v1", {{"model", options.model},
                                       {"threads", session.threads()},
                                       {"level", session.target()},
                                       {"inputs_on", on_gpu ? "device" : "host"},
                                       {"warm_up_ms", options.warm_up_ms},
                                       {"duration_s", options.duration_s},
                                       {"latency_ms", latency},
                                       {"quiet_share", times.quiet_share},
                                       {"rate", rate}});
  } else {
    std::string line = "latency ms:";
    for (const auto& [key, value] : latency.items())
      line += key == "n" ? fmt::format("  n {}", value.get<int64_t>())
                         : fmt::format("  {} {:.4f}", key, value.get<double>());
    say(global, line);
  }
  report_noise(global, times);
  if (!with_profile) return kOk;
  session.run_bound();
  const std::vector<artefact::StepTime> steps = session.last_profile();
  if (options.profile) print_profile(global, steps);
  if (!options.trace_out.empty()) write_trace(options, steps, track_of(session));
  return kOk;
}

}  // namespace

void add_bench(Application& application) {
  add_verb(application,
           {"bench", "Example: tilewright bench resnet50.tw --threads 1\n\nMeasures how long a model takes to run.",
            "MODEL", "Artefact (.tw) or ONNX model", bench});
}

}  // namespace tw::cli
