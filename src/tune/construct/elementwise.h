// The schedule of one element-wise root stage; shared by all families for their side stages.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/target_info.h"
#include "schedule/schedule.h"

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

/// Whether the innermost reduction axis runs along contiguous elements of what is read.
bool reduces_contiguous(const te::Compute& compute);

/// A reduction stage as a root: spatial vectors along the last axis when it is long enough, serial reductions inside.
void schedule_reduction(schedule::Schedule& s, const te::Compute& compute, const TargetInfo& target);

/// Inlines every stage that is element-wise, no output and cheap to repeat: those read once, and pure reads. Returns
/// the program with them inlined; appends the primitives to `s`. Stages for which `keep` returns true stay.
te::Program inline_stages(schedule::Schedule& s, te::Program program,
                          const std::function<bool(const te::Compute&)>& keep);

std::vector<std::string> axis_names(const std::vector<te::Axis>& axes);

/// An output without elements, or a sum of no terms: nothing to cut into tiles.
bool has_empty_axis(const te::Compute& compute);

/// Whether `compute` calls an elementary function.
bool calls_function(const te::Compute& compute);

/// Bytes of the widest type that `compute` reads or writes: one vector holds target.vector_bytes / this elements.
int lanes_for(const te::Compute& compute, const TargetInfo& target);

}  // namespace tw::tune
