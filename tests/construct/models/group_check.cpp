#include "tests/construct/models/group_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "driver/code/group_code.h"
#include "ops/list.h"
#include "tests/construct/construct_check.h"
#include "tests/harness/graph_evaluate.h"
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

void expect_same(const graph::Graph& before, const graph::Graph& after, const std::vector<graph::RefTensor>& inputs,
                 double tolerance) {
  const graph::OpTable ops = ops::all_ops();
  const auto want = graph::evaluate(before, ops, inputs, graph::Rounding::kNone);
  const auto got = graph::evaluate(after, ops, inputs, graph::Rounding::kNone);
  for (size_t k = 0; k < before.outputs.size(); ++k) {
    const std::vector<double>&a = want[before.outputs[k]].floats, &b = got[after.outputs[k]].floats;
    ASSERT_EQ(a.size(), b.size());
    for (size_t e = 0; e < a.size(); ++e)
      ASSERT_NEAR(a[e], b[e], tolerance * (1 + std::fabs(a[e]))) << before.value(before.outputs[k]).name << " " << e;
  }
}

}  // namespace tw::construct
