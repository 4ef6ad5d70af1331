// Whole networks for a GPU, on the interpreter: the kernel that each group would have without a measurement computes
// the group's maths. Found through TW_MODELS_DIR: small versions of the project's networks, or any others.
#include <gtest/gtest.h>

#include <set>

#include "driver/code/group_code.h"
#include "frontend/onnx/import.h"
#include "ops/list.h"
#include "tests/construct/construct_check.h"
#include "tests/harness/small_models.h"
#include "transform/pass.h"
#include "transform/storage_order.h"

namespace tw::construct {
namespace {

void check_groups(const std::string& path, DataType type) {
  const graph::OpTable ops = ops::all_ops();
  const targets::Target target = targets::find_target("cuda:sm_90a");
  transform::TransformContext context{ops, target.info};
  context.dtype = type;
  const graph::Graph groups = transform::transform(frontend::import_onnx_file(path, ops, {}).graph, context, {});
  std::set<std::string> known;
  for (const graph::Node& group : groups.nodes) {
    if (transform::is_view(groups, group)) continue;
    const driver::GroupInputs in = {groups, group, ops, target};
    if (!known.insert(driver::te_key(in)).second) continue;
    const driver::GroupTe te = driver::build_te(in);
    GroupTask task{te.program, {}};
    for (const auto& [name, layout] : te.kept) task.kept.insert(name);
    SCOPED_TRACE(fmt::format("{} of {} as {}", group.name, path, to_string(type)));
    check_candidate(task, target, construct(target.families, task, target.info, nullptr).front(), 5e-2);
  }
}

TEST(SmallModels, EveryKernelOfAGpuComputesItsGroup) {
  const std::vector<std::string> models = testing::small_models();
  if (models.empty()) GTEST_SKIP() << "not run: TW_MODELS_DIR names no folder with *_small.onnx";
  for (const std::string& path : models) {
    for (const DataType type : {DataType::f16(), DataType::f32()}) check_groups(path, type);
  }
}

}  // namespace
}  // namespace tw::construct
