// What is imported for training: initializers that may change are handed on as they are.
#include <gtest/gtest.h>

#include "tests/onnx/import_model.h"

namespace tw::frontend {
namespace {

using namespace testing;

// y = x w^T + b, as a linear layer of torch is written.
ModelBuilder linear() {
  ModelBuilder m(17);
  m.input("x", {int64_t{2}, int64_t{3}}).output("y");
  m.floats("w", {4, 3}, std::vector<float>(12, 0.5F));
  m.floats("b", {4}, {1, 2, 3, 4});
  set_int(m.node("Gemm", {"x", "w", "b"}, {"y"}), "transB", 1);
  return m;
}

bool keeps(const graph::Graph& graph, const std::string& name) {
  const graph::ValueId id = graph.find_value(name);
  return id != graph::kAbsent && graph.value(id).is_constant();
}

TEST(TrainingImport, NothingIsFoldedOfWhatMayChange) {
  ModelBuilder m = linear();
  EXPECT_FALSE(keeps(import_model(m).graph, "w")) << "of inference its transpose is known";
  ImportOptions options;
  options.purpose = Purpose::kTraining;
  const ImportResult result = import_model(m, options);
  EXPECT_TRUE(keeps(result.graph, "w") && keeps(result.graph, "b"));
  EXPECT_TRUE(result.weights.contains("w") && result.weights.contains("b"));
}

}  // namespace
}  // namespace tw::frontend
