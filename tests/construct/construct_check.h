// Runs constructed schedules on the interpreter and compares with the te program.
#pragma once
#include <string>

#include "construct/construct.h"
#include "targets/registry.h"

namespace tw::construct {

/// How much of a candidate's way is interpreted: the loops after each pass, after the last one, or nothing: it is only
/// lowered, and printed for a GPU.
enum class Passes : uint8_t { kEach, kLast, kNone };

/// For each of so many candidates of one program: a few of them, the first and others evenly, are interpreted after the
/// last pass. With TW_EVERY_CANDIDATE in the environment all are.
std::vector<Passes> passes_of(size_t candidates);

/// Values of the inputs: whole numbers, or some of them special (testing::special_inputs).
enum class Values : uint8_t { kWhole, kSpecial };

/// A program as the driver gives it to families: axes of one element are none, neighbouring ones merged.
te::Program merged(const te::Program& program);

/// Applies one candidate and every pass to it: the loops compute what the te program says, and become text on GPUs.
void check_candidate(const GroupTask& c, const targets::Target& t, const Construction& built, double tolerance,
                     Passes passes = Passes::kLast, Values values = Values::kWhole);

/// Candidates of the family that takes the program on `target` (passes_of), the first one after each pass; checks which
/// family that is.
void check(const GroupTask& c, const std::string& target, const std::string& family, double tolerance = 0,
           Values values = Values::kWhole);

/// Caches of a few hundred bytes: blocks at every level, and of the reduction, at shapes that the interpreter can run.
targets::Target with_tiny_caches(const std::string& name);

}  // namespace tw::construct
