// Winograd convolution: transform tiles of the input, one product of matrices for each of their points, transform back
// (ops/winograd_conv.cpp).
//
// The output stage owns the loops: blocks of neighbouring tiles by blocks of output channels. In a block the products
// are computed point by point with the register tile of a contraction, then transformed back from the cache. The
// transformed input of a block of tiles is computed there too, or before, by a kernel of its own, when threads share
// the channels of one block. Outputs of uneven tiles are direct sums (winograd_way_round.cpp).
#include "ops/winograd.h"

#include "construct/cpu/contraction_operands.h"
#include "construct/cpu/winograd_loops.h"
#include "construct/elementwise.h"
#include "schedule/match/stages.h"
#include "te/reads.h"
#include "te/rewrite.h"

namespace tw::construct {
namespace {

constexpr size_t kCandidates = 10;

// `readers` read the tensor from a copy in this order; its name.
std::string pack(const te::Program& program, const std::string& tensor, const std::vector<std::string>& readers,
                 const Layout& layout, const TargetInfo& target, schedule::Schedule& s) {
  const te::Compute copy = packed_copy(program.tensor(tensor), s.next_cache(tensor), layout);
  s.cache_read(tensor, readers).layout(copy.name(), layout);
  schedule_stage(s, program, {&copy}, target);
  return copy.name();
}

// An input that is not stored channels last is copied into that order for all that reads it without padding.
void place_input(const te::Program& program, const WinogradStages& stages, const TargetInfo& target,
                 schedule::Schedule& s) {
  const te::Compute& patches = *program.find_compute(stages.patches);
  const te::Tensor& x = program.tensor(te::reads_of(patches, program.inputs).front()->name);
  const int channel = channel_dim(patches);
  if (channel + 1 == static_cast<int>(x.shape.size())) return;
  std::vector<std::string> readers = {stages.energies, stages.patches};
  if (stages.pad.empty()) readers.push_back(stages.rows);
  pack(program, x.name, readers, dim_last(x.shape.size(), channel), target, s);
}

// Weights that are computed in each run are copied into the order in which blocks read them.
void copy_computed(const te::Program& program, const GroupTask& task, const TargetInfo& target, WinogradPlan& plan,
                   schedule::Schedule& s) {
  for (auto [operand, reader] :
       {std::pair(&plan.weights, &plan.stages.products), {&plan.kernels, &plan.stages.direct}}) {
    if (task.kept.contains(*operand)) continue;
    *operand = pack(program, *operand, {*reader}, plan.layouts.extract(*operand).mapped(), target, s);
  }
}

}  // namespace

Result<Candidates> construct_winograd(const GroupTask& task, const TargetInfo& target) {
  const Result<WinogradStages> before = match_winograd(task.program);
  if (!before.ok()) return Reason{before.reason()};
  Construction base;
  const te::Program program = schedule::inline_stages(base.schedule, task.program,
                                                      [&](const te::Compute& c) { return before->contains(c.name()); });
  const Result<WinogradStages> stages = match_winograd(program);
  TW_CHECK(stages.ok(), "the Winograd convolution of {} is gone after inlining", program.name);
  const Result<WinogradAxes> axes = match_winograd_axes(program, *stages);
  if (!axes.ok()) return Reason{axes.reason()};
  const Result<std::string> output = schedule::epilogue_output(program, *program.find_compute(stages->first));
  if (!output.ok()) return Reason{output.reason()};
  const std::string weights = schedule::match_contraction(*program.find_compute(stages->products))->b->name;
  const std::string kernels = schedule::match_contraction(*program.find_compute(stages->direct))->b->name;
  const int64_t lanes = target.lanes(DataType::f32());
  const WinogradProblem problem = winograd_problem(program, *stages, *axes, lanes);
  if (problem.channels < lanes || problem.out_channels < lanes)
    return declined("fewer channels than a vector has lanes");
  place_input(program, *stages, target, base.schedule);
  schedule_side_stages(base.schedule, program, stages->first, target,
                       [&](const te::Compute& c) { return stages->contains(c.name()); });

  const std::string precision =
      fmt::format("precision: F({0} x {0}, 3 x 3), error bound {1:.3g} times the direct sum's; uneven tiles directly",
                  problem.m, ops::winograd_growth(problem.m));
  Candidates candidates;
  for (const WinogradBlocks& blocks : block_winograd(problem, target, kCandidates)) {
    WinogradPlan plan{*stages, *axes, problem, blocks, weights, kernels, *output, {}, {}};
    plan.layouts = winograd_layouts(program, plan);
    Construction candidate = base;
    copy_computed(program, task, target, plan, candidate.schedule);
    plan.program = te::apply_layouts(program, plan.layouts);
    candidate.constant_layouts = plan.layouts;
    candidate.predicted_ns = blocks.predicted_ns;
    candidate.trace = blocks.trace;
    candidate.trace.push_back(precision);
    schedule_winograd(plan, target, candidate.schedule);
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

}  // namespace tw::construct
