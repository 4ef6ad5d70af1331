// The way round uneven tiles (ops/winograd_uneven.cpp). Energies are computed with each block of tiles; the direct sums
// of a tile, panel by panel, in that branch only.
#include "construct/cpu/winograd_loops.h"
#include "support/join.h"
#include "te/reads.h"

namespace tw::construct {
namespace {

using schedule::Schedule;
using Names = std::vector<std::string>;

Names axis_names(const te::Compute& c) { return mapped(c.axes, &te::Axis::name); }

std::string partial(const WinogradPlan& plan) { return plan.stages.energies + ".rf"; }
std::string sums(const WinogradPlan& plan) { return plan.stages.direct + ".acc"; }

// A vector of partial sums for each cell, added up at its end.
void energies_loops(const WinogradPlan& plan, const WinogradPlaces& places, Schedule& s) {
  const std::string& energies = plan.stages.energies;
  s.compute_at(plan.stages.uneven, places.output, places.block, loop::Scope::kScratch);
  s.compute_at(energies, places.output, places.block, loop::Scope::kScratch);
  const Names cells = axis_names(plan.stage(energies));
  s.vectorize(energies, "r0");
  s.compute_at(partial(plan), energies, cells.back(), loop::Scope::kRegister);
  s.reorder(partial(plan), {"r0", numbered_axis(cells.size())});
  s.vectorize(partial(plan), numbered_axis(cells.size()));
}

// Register tiles of one row of a tile by a panel of channels.
void direct_loops(const WinogradPlan& plan, const WinogradPlaces& places, Schedule& s) {
  const std::string& direct = plan.stages.direct;
  const te::Compute& stage = plan.stage(direct);
  const Names axes = axis_names(stage);
  const std::string &channel = axes.back(), &column = axes[axes.size() - 2], &row = axes[axes.size() - 3];
  s.compute_at(direct, places.owner, places.panel, loop::Scope::kStack);
  s.split(direct, channel, {plan.problem.lanes});
  s.unroll(direct, column);
  s.unroll(direct, channel + ".0");
  s.vectorize(direct, channel + ".1");
  s.compute_at(sums(plan), direct, row, loop::Scope::kRegister);
  s.split(sums(plan), channel, {plan.problem.lanes});
  Names order;
  for (size_t r = 1; r < stage.reduce_axes.size(); ++r) order.push_back(stage.reduce_axes[r].name);
  order.push_back(stage.reduce_axes[0].name);
  s.reorder(sums(plan), joined(order, Names(axes.begin(), axes.end() - 1), Names{channel + ".0", channel + ".1"}));
  for (size_t d = 0; d + 1 < axes.size(); ++d) s.unroll(sums(plan), axes[d]);
  s.unroll(sums(plan), channel + ".0");
  s.vectorize(sums(plan), channel + ".1");
}

void patches_loops(const WinogradPlan& plan, const WinogradPlaces& places, Schedule& s) {
  const std::string& patches = plan.stages.patches;
  const std::string channel = plan.stage(patches).axes.back().name;
  s.compute_at(patches, places.owner, places.panel, loop::Scope::kScratch);
  s.split(patches, channel, {plan.problem.lanes});
  s.vectorize(patches, channel + ".1");
}

}  // namespace

void prepare_way_round(const WinogradPlan& plan, Schedule& s) {
  s.cache_write(plan.stages.direct);
  s.rfactor(plan.stages.energies, plan.stage(plan.stages.energies).reduce_axes[0].name, plan.problem.lanes);
}

void schedule_way_round(const WinogradPlan& plan, const WinogradPlaces& places, Schedule& s) {
  direct_loops(plan, places, s);
  patches_loops(plan, places, s);
  energies_loops(plan, places, s);
}

}  // namespace tw::construct
