// The candidates of a family whose tilings can come to the same schedule.
#pragma once
#include "tune/construct/construct.h"

namespace tw::tune {

/// Those that differ in their schedule or layouts, best predicted first, as many as are worth their compilation.
Candidates best_distinct(Candidates candidates);

}  // namespace tw::tune
