// Whole graphs of groups on the interpreter.
#pragma once
#include "graph/op.h"
#include "targets/registry.h"

namespace tw::construct {

/// The kernel that each different group would have without a measurement computes the group's maths.
void check_groups(const graph::Graph& groups, const graph::OpTable& ops, const targets::Target& target);

}  // namespace tw::construct
