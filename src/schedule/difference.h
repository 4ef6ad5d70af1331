// How two schedules of one te program differ, for people.
#pragma once
#include <string>

#include "schedule/schedule.h"

namespace tw::schedule {

/// What `other` does in another way than `chosen`: "conv along i1 in tiles of 4x16 (chosen: 2x16), conv in order
/// i1.0 i0.0 (chosen: i0.0 i1.0)". Splits and orders of loops come first, since they decide most; of the rest at most
/// four differences are named and the others counted. Empty for equal schedules.
std::string difference_in_words(const Schedule& other, const Schedule& chosen);

}  // namespace tw::schedule
