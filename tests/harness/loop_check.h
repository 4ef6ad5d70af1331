// Runs loop IR on the interpreter and compares with the te program that it implements.
#pragma once
#include <set>
#include <string>

#include "core/layout.h"
#include "schedule/schedule.h"
#include "tests/harness/loop_interpreter.h"
#include "tests/harness/te_evaluate.h"

namespace tw::testing {

/// Inputs whose elements are small whole numbers, different for each input: sums of products of them are exact in f32,
/// so that any order of summation gives the same bits.
te::ValueMap whole_inputs(const te::Program& program);

/// The same with a few numbers that are NaN, infinite or far larger; those of `constants` with ones for zeros.
te::ValueMap special_inputs(const te::Program& program, const std::set<std::string>& constants);

/// The same values stored in a layout.
te::TensorValues stored_in(const te::TensorValues& values, const Layout& layout);

/// Interprets `loops` with `inputs` as they are stored; the other parameters start as zeros. Returns all memory.
loop::Memory run_loops(const loop::Program& loops, const te::ValueMap& inputs);

/// Says where the outputs of `program` in `memory` first differ from `want` by more than tolerance * (1 + |want|);
/// empty when nowhere. NaN is NaN; integers are compared exactly.
std::string first_difference(const te::Program& program, const te::ValueMap& want, const loop::Memory& memory,
                             double tolerance);

/// The error that refuses `schedule` for `program`, or "accepted"; and that without the primitive that it names.
std::string refusal(const te::Program& program, const schedule::Schedule& schedule);
std::string refused_for(const te::Program& program, const schedule::Schedule& schedule);

}  // namespace tw::testing
