// The schedule of one element-wise root stage; shared by all families for their side stages.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/target_info.h"
#include "schedule/match/stages.h"
#include "schedule/schedule.h"

namespace tw::construct {

/// Leading loops to run as tiles: the fewest whose rest is at most `work` elements, by default those of a tile that is
/// long enough to hide its entry and short enough to balance two threads.
constexpr int64_t kTileElements = 8192;
std::vector<std::string> tile_loops(const std::vector<std::string>& loops, const std::vector<int64_t>& extents,
                                    int64_t work = kTileElements);

/// A root stage, behind those that its loops hold in registers.
using Stages = std::vector<const te::Compute*>;
bool holds(const Stages& stages, const std::string& name);

/// A stage as a root: vectors along the last axis, tiles along the leading ones, about `kTileElements` elements a tile,
/// and serial reductions inside. Where an element-wise stage reads a tensor of `program` that is contiguous along
/// another axis, that axis gets an inner loop if the model of the nest says so: its lines are used up while they are
/// near. What the root holds is computed in its registers.
void schedule_stage(schedule::Schedule& s, const te::Program& program, const Stages& stages, const TargetInfo& target);
/// Has those that are held computed in turns of the root's `loop`.
void hold(schedule::Schedule& s, const Stages& stages, const std::string& loop, int64_t lanes);

/// All stages, each with the root that may hold it (schedule::point_ends()); roots in their order.
std::vector<Stages> root_stages(const te::Program& program);

/// So each stage of `program` that is neither `first`, nor follows it, nor `is_inside`.
void schedule_side_stages(
    schedule::Schedule& s, const te::Program& program, const std::string& first, const TargetInfo& target,
    const std::function<bool(const te::Compute&)>& is_inside = [](const te::Compute&) { return false; });

/// The layout of a tensor of `rank` dims in which `dim` is the last one.
Layout dim_last(size_t rank, int dim);

/// Threads of a tile on GPUs, `max` at most, such that all compute units get some of `points`.
int64_t threads_for(int64_t points, int64_t max, const TargetInfo& target);

/// The loops of a root stage as one, split into tiles of `threads`, of which each has `turns`, a tile's threads apart.
/// Returns the loop of threads.
std::string map_to_threads(schedule::Schedule& s, const std::string& stage, const std::vector<std::string>& loops,
                           int64_t threads, int64_t turns = 1);
/// The loop of turns in that of threads, or that where there is one turn.
std::string loop_of_turns(const std::string& of_threads, int64_t turns);

/// Bytes of the widest type that `compute` reads or writes: one vector holds target.vector_bytes / this elements.
int lanes_for(const te::Compute& compute, const TargetInfo& target);

}  // namespace tw::construct
