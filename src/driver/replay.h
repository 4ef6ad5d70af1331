// The groups of a plan that is replayed, found by what they compute.
#pragma once
#include <string>
#include <vector>

#include "driver/entry_groups.h"
#include "plan/plan.h"

namespace tw::driver {

/// What plans know a group by: a hash of text_of() its te program.
std::string content_of(const std::string& text);

struct Replay {
  /// For each group its plan; null for views and for those that the plan does not have. Of several plans of one content
  /// the one of the same name.
  std::vector<const plan::GroupPlan*> plans;
  /// What was not found on either side, a sentence; empty: all was.
  std::string missing;
};

/// The values whose layouts in the plan were not those that `chosen` has, or that those between `groups` have, a
/// sentence; empty: there are none.
std::string find_other_layouts(const plan::EntryPlan& plan, const ValueLayouts& chosen, const graph::Graph& groups);

/// `plan` on the groups of a model whose graph has the hash `graph_hash`. UsageError where it was made for another
/// model, less than half of which it knows, or where it knows none of the groups; one without groups says how values
/// are stored, and no more.
Replay find_groups(const plan::EntryPlan& plan, const EntryGroups& groups, const std::string& graph_hash);

}  // namespace tw::driver
