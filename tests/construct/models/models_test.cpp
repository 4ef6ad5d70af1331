// Whole networks for a GPU, on the interpreter: the kernel that each group would have without a measurement computes
// the group's maths. Found through TW_MODELS_DIR: small versions of the project's networks, or any others.
#include <gtest/gtest.h>

#include "frontend/onnx/import.h"
#include "ops/list.h"
#include "tests/construct/models/group_check.h"
#include "tests/harness/small_models.h"
#include "tests/harness/takes_all.h"
#include "transform/pass.h"

namespace tw::construct {
namespace {

void check_model(const std::string& path, DataType type) {
  const graph::OpTable ops = ops::all_ops();
  const targets::Target target = targets::find_target("cuda:sm_90a");
  transform::TransformContext context{ops, target.info};
  context.dtype = type;
  const graph::Graph groups = transform::transform(frontend::import_onnx_file(path, ops, {}).graph, context, {});
  SCOPED_TRACE(fmt::format("{} as {}", path, to_string(type)));
  check_groups(groups, ops, target);
}

TEST(SmallModels, EveryKernelOfAGpuComputesItsGroup) {
  const std::vector<std::string> models = testing::small_models();
  if (models.empty()) GTEST_SKIP() << "not run: TW_MODELS_DIR names no folder with *_small.onnx";
  for (size_t k = 0; k < models.size(); ++k) {
    if (testing::takes_all() || k % 2 == 0) check_model(models[k], DataType::f16());
    if (testing::takes_all() || k % 2 == 1) check_model(models[k], DataType::f32());
  }
}

}  // namespace
}  // namespace tw::construct
