// How a model says at run time that a value it was given is wrong.
#pragma once
#include <string_view>

namespace tw::graph {

/// Name of an output that the caller does not see: one i32, nonzero when an index was out of range. It is the last
/// output of a graph that has it; an artefact keeps it in the runtime's error word, with which a run fails.
inline constexpr std::string_view kErrorOutput = "tilewright.error";

}  // namespace tw::graph
