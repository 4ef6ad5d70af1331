// The schedule of one element-wise root stage; shared by all families for their side stages.
#pragma once
#include <string>
#include <vector>

#include "core/target_info.h"
#include "schedule/schedule.h"
#include "schedule/stages.h"

namespace tw::tune {

/// Leading loops to run as tiles: the fewest whose rest is at most `work` elements, by default those of a tile that is
/// long enough to hide its entry and short enough to balance two threads.
constexpr int64_t kTileElements = 8192;
std::vector<std::string> tile_loops(const std::vector<std::string>& loops, const std::vector<int64_t>& extents,
                                    int64_t work = kTileElements);

/// Vectors along the last axis, tiles along the leading ones, about `kTileElements` elements a tile. Where a tensor of
/// `program` is contiguous along another axis, that axis gets an inner loop if the model of the nest says so: its lines
/// are used up while they are near.
void schedule_elementwise(schedule::Schedule& s, const te::Program& program, const te::Compute& compute,
                          const TargetInfo& target);

/// A reduction stage as a root: spatial vectors along the last axis when it is long enough, serial reductions inside.
void schedule_reduction(schedule::Schedule& s, const te::Compute& compute, const TargetInfo& target);

std::vector<std::string> axis_names(const std::vector<te::Axis>& axes);

/// Bytes of the widest type that `compute` reads or writes: one vector holds target.vector_bytes / this elements.
int lanes_for(const te::Compute& compute, const TargetInfo& target);

}  // namespace tw::tune
