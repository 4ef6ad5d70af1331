// The schedule of one element-wise root stage; shared by all families for their side stages.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/target_info.h"
#include "schedule/schedule.h"

namespace tw::tune {

/// Vectors along the last axis, tiles along the leading ones, about `kTileElements` elements a tile.
void schedule_elementwise(schedule::Schedule& s, const te::Compute& compute, const TargetInfo& target);

/// A reduction stage as a root: spatial vectors along the last axis when it is long enough, serial reductions inside.
void schedule_reduction(schedule::Schedule& s, const te::Compute& compute, const TargetInfo& target);

/// Inlines every stage that is element-wise, no output and cheap to repeat: those read once, and pure reads. Returns
/// the program with them inlined; appends the primitives to `s`. Stages for which `keep` returns true stay.
te::Program inline_stages(schedule::Schedule& s, te::Program program,
                          const std::function<bool(const te::Compute&)>& keep);

std::vector<std::string> axis_names(const std::vector<te::Axis>& axes);

/// Bytes of the widest type that `compute` reads or writes: one vector holds target.vector_bytes / this elements.
int lanes_for(const te::Compute& compute, const TargetInfo& target);

}  // namespace tw::tune
