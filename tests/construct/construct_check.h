// Runs constructed schedules on the interpreter and compares with the te program.
#pragma once
#include <string>

#include "construct/construct.h"
#include "targets/registry.h"

namespace tw::construct {

/// How much of a candidate's way is interpreted: the loops after each pass, or after the last one; or those after the
/// last one of some candidates: of each program on a target the first that a test brings, the fourth, the ninth and so
/// on, others being only lowered, and printed for a GPU (testing::takes_all: of all).
enum class Passes : uint8_t { kEach, kLast, kSome };

/// Values of the inputs: whole numbers, or some of them special (testing::special_inputs).
enum class Values : uint8_t { kWhole, kSpecial };

/// A program as the driver gives it to families: axes of one element are none, neighbouring ones merged.
te::Program merged(const te::Program& program);

/// Applies one candidate and every pass to it: the loops compute what the te program says, and become text on GPUs.
void check_candidate(const GroupTask& c, const targets::Target& t, const Construction& built, double tolerance,
                     Passes passes = Passes::kSome, Values values = Values::kWhole);

/// Candidates of the family that takes the program on `target`, some of them (Passes::kSome), and the first one of the
/// test's first program after each pass; checks which family that is.
void check(const GroupTask& c, const std::string& target, const std::string& family, double tolerance = 0,
           Values values = Values::kWhole);

/// Caches of a few hundred bytes: blocks at every level, and of the reduction, at shapes that the interpreter can run.
targets::Target with_tiny_caches(const std::string& name);

}  // namespace tw::construct
