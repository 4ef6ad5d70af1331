#include "driver/outcome.h"

namespace tw::driver {

using Json = nlohmann::ordered_json;

CompileOutcome outcome_of(const Compiled& compiled) {
  CompileOutcome out;
  if (compiled.plan.entries.empty()) {
    out.summary.warnings = compiled.warnings;
  } else {
    out.summary = summarize(compiled);
  }
  out.times = compiled.times;
  out.complete = compiled.complete;
  out.padding = compiled.padding;
  out.profiling = compiled.profiling;
  return out;
}

Json to_json(const Profiling& p) {
  return {
      {"seconds", p.seconds},
      {"code_seconds", p.code_seconds},
      {"reference_seconds", p.reference_seconds},
      {"candidates", p.candidates},
      {"groups", p.groups},
      {"groups_left", p.groups_left},
      {"compilations",
       {{"kernels", p.kernels_compiled}, {"templates", p.templates_compiled}, {"references", p.references_compiled}}},
      {"templates_compiled_afterwards", p.winners_compiled}};
}

Json to_json(const CompileOutcome& outcome) {
  const CompileSummary& s = outcome.summary;
  const Padding& padding = outcome.padding;
  Json times = Json::array();
  for (const PassTime& time : outcome.times)
    times.push_back({{"phase", time.phase}, {"pass", time.pass}, {"ns", time.nanoseconds}});
  return {{"target", s.target},
          {"entries", s.entries.size()},
          {"entry_names", s.entries},
          {"opset", s.opset},
          {"groups", s.groups},
          {"kernels", s.kernels},
          {"families", s.families},
          {"winograd_groups", s.winograd_groups},
          {"padding",
           {{"kernels", padding.kernels}, {"us", padding.us}, {"of_us", padding.all_us}, {"share", padding.share()}}},
          {"profiling", to_json(outcome.profiling)},
          {"cached", outcome.cached},
          {"complete", outcome.complete},
          {"times", times},
          {"warnings", s.warnings}};
}

}  // namespace tw::driver
