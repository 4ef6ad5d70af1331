// By which axes of its own a stage reads an element of another one. Private to src/schedule.
#pragma once
#include <span>

#include "te/te.h"

namespace tw::schedule {

/// Gives `values` the axes among `own` that are known where one reads `axis` of a tensor at `index`, in terms of
/// `axis`: a digit (own / unit) mod count of one of them, or all of theirs in a sum, each with the extents of those
/// behind it as its unit. False where `index` is neither.
bool solve(const Expr& index, const te::Axis& axis, std::span<const te::Axis> own, VarMap& values);

}  // namespace tw::schedule
