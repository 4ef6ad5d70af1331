// Random schedules for a te program: whatever apply() accepts must compute what the program says.
#pragma once
#include <cstdint>

#include "schedule/schedule.h"

namespace tw::testing {

/// A seeded schedule of up to `length` primitives that are legal on `program` one after the other; proposals that a
/// primitive refuses with UserError are left out. Loops that are unrolled or vectorised stay small enough to interpret.
schedule::Schedule random_schedule(const te::Program& program, uint64_t seed, int length);

}  // namespace tw::testing
