#include "tests/construct/models/group_check.h"

#include <gtest/gtest.h>

#include <set>

#include "driver/code/group_code.h"
#include "tests/construct/construct_check.h"
#include "transform/storage_order.h"

namespace tw::construct {

void check_groups(const graph::Graph& groups, const graph::OpTable& ops, const targets::Target& target) {
  std::set<std::string> known;
  for (const graph::Node& group : groups.nodes) {
    if (transform::is_view(groups, group)) continue;
    const driver::GroupInputs in = {groups, group, ops, target};
    if (!known.insert(driver::te_key(in)).second) continue;
    const driver::GroupTe te = driver::build_te(in);
    GroupTask task{te.program, {}};
    for (const auto& [name, layout] : te.kept) task.kept.insert(name);
    SCOPED_TRACE(group.name);
    check_candidate(task, target, construct(target.families, task, target.info, nullptr).front(), 5e-2);
  }
}

}  // namespace tw::construct
