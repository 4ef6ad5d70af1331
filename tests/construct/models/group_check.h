// Whole graphs of groups on the interpreter.
#pragma once
#include <vector>

#include "graph/op.h"
#include "targets/registry.h"

namespace tw::construct {

/// The kernel that each different group would have without a measurement computes the group's maths.
void check_groups(const graph::Graph& groups, const graph::OpTable& ops, const targets::Target& target);

/// Outputs of both graphs on `inputs`, without roundings, differ by `tolerance` of their size and of one at most.
void expect_same(const graph::Graph& before, const graph::Graph& after, const std::vector<graph::RefTensor>& inputs,
                 double tolerance);

}  // namespace tw::construct
