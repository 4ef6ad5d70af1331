// The schedule of a Winograd convolution for one way to cut it into blocks.
#pragma once
#include <fmt/format.h>

#include <map>
#include <string>

#include "construct/cpu/winograd_match.h"
#include "schedule/schedule.h"

namespace tw::construct {

/// The name of axis d of a stage.
inline std::string numbered_axis(size_t d) { return fmt::format("i{}", d); }

struct WinogradPlan {
  const WinogradStages& stages;
  const WinogradAxes& axes;
  const WinogradProblem& problem;
  const WinogradBlocks& blocks;
  std::string weights;                    // name of the transformed weights
  std::string kernels;                    // name of the weights of direct sums
  std::string output;                     // stage that owns the loops
  std::map<std::string, Layout> layouts;  // of transformed tiles, products and weights
  te::Program program;                    // with the layouts

  int64_t panel() const { return blocks.tile.vectors * problem.lanes; }
  /// Input channels that are stored together in a transformed tile.
  int64_t channel_block() const;
  const te::Compute& stage(const std::string& name) const { return *program.find_compute(name); }
};

/// What the loops of several files know of one another: a block of tiles is a turn of loop `block` of stage `output`;
/// what is transformed back is attached in loop `panel` of stage `owner`.
struct WinogradPlaces {
  std::string output, block, owner, panel;
};

/// Appends the loops of the way round uneven tiles (winograd_way_round.cpp): the first part before any loop of what
/// reads it, the second one when those are final.
void prepare_way_round(const WinogradPlan& plan, schedule::Schedule& s);
void schedule_way_round(const WinogradPlan& plan, const WinogradPlaces& places, schedule::Schedule& s);

/// Layouts for `plan.blocks`: transformed tiles and products [block of channels, rows.., tile, point, point, channel]
/// or, with points outside, [point, point, block of channels, rows.., tile, channel]; weights
/// [block of columns, point, point, panel, (position,) channel, column], the order in which a block of tiles reads
/// them; kernels [panel, (position,) row, column, channel, column].
std::map<std::string, Layout> winograd_layouts(const te::Program& logical, const WinogradPlan& plan);

/// Appends the loops of all stages of the convolution.
void schedule_winograd(const WinogradPlan& plan, const TargetInfo& target, schedule::Schedule& s);

}  // namespace tw::construct
