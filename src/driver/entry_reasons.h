// What passes said about the edges and values of a graph of groups, as the plan keeps it.
#pragma once
#include "graph/graph.h"
#include "plan/reasons.h"
#include "transform/reason_log.h"

namespace tw::driver {

/// A reason for each edge from an operator to a reader, inside a group or between two, and for the layout of each value
/// that is stored. Where no pass said anything, none that could have has run.
plan::Reasons reasons_of(const graph::Graph& groups, const transform::ReasonLog& log);

}  // namespace tw::driver
