// What passes said about the edges and values of a graph of groups, as the plan keeps it.
#pragma once
#include "driver/code/group_code.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "transform/reason_log.h"

namespace tw::driver {

/// A pass that measuring left out, and what it would have said of edges.
struct LeftOut {
  plan::PassVariant race;
  transform::ReasonLog log;
};

/// A reason for each edge from an operator to a reader, inside a group or between two, and for the layout of each value
/// that is stored. Where no pass said anything, none that could have has run.
plan::Reasons reasons_of(const graph::Graph& groups, const transform::ReasonLog& log,
                         const std::vector<LeftOut>& left_out = {});

/// Adds to the edges inside of groups by how many kernels the group is computed: passes do not know. `code` is that of
/// the groups, in their order.
void say_of_kernels(const graph::Graph& groups, const std::vector<GroupCode>& code, plan::Reasons& reasons);

}  // namespace tw::driver
