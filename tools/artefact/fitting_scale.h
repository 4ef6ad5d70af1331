// The loss scale at which a training step of 16 bits counts.
#pragma once
#include <vector>

#include "artefact/session.h"

namespace tw::artefact {

/// `inputs` of the session's function, with a loss scale that is small enough: where a gradient is no number in 16
/// bits, a step leaves itself out and halves its scale, so that a run at the first scale shows little. The scale is
/// halved until no output is infinite or no number and no step is left out. `inputs` as they are where the artefact has
/// no such state, or no scale down to 2^-24 is small enough.
std::vector<Array> with_fitting_scale(const std::vector<Array>& inputs, Session& session);

}  // namespace tw::artefact
