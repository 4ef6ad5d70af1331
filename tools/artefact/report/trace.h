// A profiled run in Chrome's trace format, which Perfetto reads.
#pragma once
#include <span>
#include <string>

#include "artefact/session.h"

namespace tw::artefact::report {

/// {"traceEvents": [..]}: a complete event for each step, one behind the other on one track, since a profile knows how
/// long each step took and not when it began. Times are in us. `track`: "stream" of a GPU, "2 threads". Equal steps
/// give equal texts.
std::string to_trace(std::span<const StepTime> steps, const std::string& model, const std::string& track);

}  // namespace tw::artefact::report
