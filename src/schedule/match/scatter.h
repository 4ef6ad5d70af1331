// Sums at computed indices: what gathers are differentiated by.
#pragma once
#include <string>

#include "schedule/schedule.h"
#include "support/error.h"

namespace tw::schedule {

/// y[a.., v, b..] = sum over r.. of (index(a.., r..) == v ? x : 0), and what follows it point by point.
struct Scatter {
  te::Program program;  // with what is cheap to repeat inlined
  std::string sum;
  std::string output;  // of what follows, or the sum
  size_t line = 0;     // the number of axis v; b.. are the elements of a line
  const te::Compute& compute() const { return *program.find_compute(sum); }
};

/// Whether it is such a sum.
bool sums_at_indices(const te::Compute& compute);

/// The primitives that inline are appended to `s`.
Result<Scatter> match_scatter(Schedule& s, const te::Program& program);

}  // namespace tw::schedule
