#include "artefact/report/trace.h"

#include <nlohmann/json.hpp>

namespace tw::artefact::report {

std::string to_trace(std::span<const StepTime> steps, const std::string& model, const std::string& track) {
  using Json = nlohmann::ordered_json;
  const auto meta = [](std::string_view kind, const std::string& name) {
    return Json{{"name", kind}, {"ph", "M"}, {"pid", 1}, {"tid", 1}, {"args", {{"name", name}}}};
  };
  Json events = Json::array({meta("process_name", model), meta("thread_name", track)});
  double now = 0;
  for (const StepTime& step : steps) {
    events.push_back({{"name", step.name},
                      {"cat", "step"},
                      {"ph", "X"},
                      {"ts", now},
                      {"dur", step.microseconds},
                      {"pid", 1},
                      {"tid", 1}});
    now += step.microseconds;
  }
  const Json json = {{"displayTimeUnit", "ns"}, {"traceEvents", events}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tw::artefact::report
