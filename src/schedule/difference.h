// How two schedules of one te program differ, for people.
#pragma once
#include <string>

#include "schedule/schedule.h"

namespace tw::schedule {

/// What `other` does in another way than `chosen`: "conv: i1 in tiles of 4x16 (chosen: 2x16), order i1.0 i0.0 (chosen:
/// i0.0 i1.0); 3 more". At most four differences are named: tiles, orders and whole implementations, which decide the
/// rest, and where all of these are equal any other. Empty for equal schedules.
std::string difference_in_words(const Schedule& other, const Schedule& chosen);

}  // namespace tw::schedule
