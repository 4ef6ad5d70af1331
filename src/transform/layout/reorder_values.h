// Layouts of values between groups, which were measured when the groups were known.
#pragma once
#include "transform/in_place.h"
#include "transform/names.h"

namespace tw::transform {

/// Whether `id`, of a graph of groups, may be stored in any order: a group computes it, and neither a caller nor a
/// state has it.
bool is_between_groups(const Graph& groups, ValueId id, const std::vector<StateNames>& states);

/// A group that copies `from` to `to`: values of one type in two layouts.
Node copy_between(const Graph& groups, ValueId from, ValueId to);

}  // namespace tw::transform
