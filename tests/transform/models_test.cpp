// The passes on the small versions of the project's networks (scripts/make_models.py), found through TW_MODELS_DIR.
#include <gtest/gtest.h>

#include "frontend/onnx/import.h"
#include "tests/harness/small_models.h"
#include "tests/transform/graph_tools.h"

namespace tw::transform {
namespace {

using graph::Graph;
using testing::context;

constexpr double kReassociated = 1e-9;
constexpr double kPatterns = 1e-6;  // constants of decomposed operators (sqrt(2), 1/6) are written in f32

// Weights in f64, so that passes that reassociate can be held to a tight bound.
Graph load(const std::string& path) {
  return testing::widen(frontend::import_onnx_file(path, context().ops, {}).graph);
}

double tolerance_of(std::string_view pass) {
  if (pass == "canonicalize") return kPatterns;
  return pass == "fold-batch-norm" ? kReassociated : 0;
}

TEST(SmallModels, KeepTheirFunction) {
  const std::vector<std::string> models = testing::small_models();
  if (models.empty()) GTEST_SKIP() << "not run: TW_MODELS_DIR names no folder with *_small.onnx";
  for (const std::string& path : models) {
    SCOPED_TRACE(path);
    const Graph before = load(path);
    for (const GraphPass& pass : pipeline()) {
      SCOPED_TRACE(pass.name);
      testing::expect_same_function(before, testing::run_pass(before, pass.name), tolerance_of(pass.name));
    }
    RunOptions off;
    off.all_optional_off = true;
    testing::expect_same_function(before, transform(before, context(), off), 0);
    testing::expect_same_function(before, transform(before, context(), {}), kPatterns);
    TransformContext gpu = context();
    gpu.target.kind = DeviceKind::kCuda;
    testing::expect_same_function(before, transform(before, gpu, {}), kPatterns);
  }
}

}  // namespace
}  // namespace tw::transform
