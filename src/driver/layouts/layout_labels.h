// The layouts that values between groups may have: what measuring chooses among.
#pragma once
#include <map>
#include <vector>

#include "driver/entry_groups.h"

namespace tw::driver {

/// What the search for layouts is about, and what it is made with.
struct LayoutTask {
  const EntryGroups& groups;
  const graph::OpTable& ops;
  const targets::Target& target;
  const std::vector<transform::StateNames>& states;
};

/// All orders of the dims of each value between groups, dims that are one axis to all of its groups taken as one; the
/// order that it has comes first. A value of more than four such dims, and what a group writes in the place of a state
/// or reads beside it, keeps its order.
std::map<graph::ValueId, std::vector<Layout>> layout_labels(const LayoutTask& task);

}  // namespace tw::driver
