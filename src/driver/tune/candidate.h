// Candidates of one group on their way to a measurement: te program and construction -> machine code -> workload.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "driver/code/generate.h"
#include "driver/code/group_code.h"
#include "driver/code/program_code.h"
#include "measure/measurer.h"

namespace tw::driver {

/// A loop program with its machine code, or why there is none.
struct CandidateCode {
  loop::Program loops;
  ProgramCode code;
  std::string declined;
};

/// What candidates are made for and with.
struct CandidateContext {
  const TargetInfo& target;
  const GroupOptions& group;
  CodeTools tools;
};

/// Applies each plan to `program`, lowers and generates code. What fails is declined. Throws Stopped once the
/// context's cubins are stopped.
std::vector<CandidateCode> make_candidates(const te::Program& program, std::span<const plan::GroupPlan> plans,
                                           const CandidateContext& context);

/// Integers of an input of `program` are measured with 1 and up to this: indices that it limits, with all of them.
int64_t largest_integer(const te::Program& program, const std::string& input);

/// What a worker needs to run `code`: inputs of `program` filled by name and in the layouts of `plan`, everything else
/// written by the kernels. Nothing is wanted yet.
measure::Workload make_workload(const te::Program& program, const plan::GroupPlan& plan, const CandidateCode& code);

/// Index of the buffer in a workload of make_workload() that holds the parameter `name` of `loops`; -1: none.
int64_t buffer_index(const loop::Program& loops, const std::string& name);

}  // namespace tw::driver
