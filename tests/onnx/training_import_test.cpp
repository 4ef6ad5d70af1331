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

// The bias of one unit is a parameter, a number without dimensions a constant of the formula.
TEST(TrainingImport, OneElementWithDimensionsMayChange) {
  ModelBuilder m(17);
  m.input("x", {int64_t{2}, int64_t{3}}).output("y");
  m.floats("w", {3, 1}, {1, 2, 3});
  m.floats("b", {1}, {0.5});
  m.floats("half", {}, {0.5});
  m.node("MatMul", {"x", "w"}, {"p"});
  m.node("Add", {"p", "b"}, {"s"});
  m.node("Mul", {"s", "half"}, {"y"});
  ImportOptions options;
  options.purpose = Purpose::kTraining;
  EXPECT_EQ(import_model(m, options).weights, (std::set<std::string>{"b", "w"}));
  EXPECT_EQ(import_model(m).weights, (std::set<std::string>{"w"}));
}

// torch's exporter writes equal parameters once.
TEST(TrainingImport, CopiesOfAParameterAreOnesOfTheirOwn) {
  ImportOptions options;
  options.purpose = Purpose::kTraining;
  ModelBuilder m(17);
  m.input("x", {int64_t{2}, int64_t{3}}).output("y");
  m.floats("n", {3}, {1, 1, 1});
  m.node("Identity", {"n"}, {"copy"});
  m.node("Identity", {"n"}, {"other"});
  m.node("Mul", {"x", "n"}, {"s"});
  m.node("Add", {"s", "copy"}, {"t"});
  m.node("Mul", {"t", "other"}, {"y"});
  const ImportResult result = import_model(m, options);
  EXPECT_EQ(result.weights, (std::set<std::string>{"copy", "n", "other"}));
  EXPECT_TRUE(keeps(result.graph, "n") && keeps(result.graph, "copy") && keeps(result.graph, "other"));
  EXPECT_EQ(import_model(m).weights, (std::set<std::string>{"n"})) << "of inference it is one";
}

// Exporters that write each reading of a variable as an Identity share it: nothing else reads it.
TEST(TrainingImport, CopiesAloneAreOneParameter) {
  ImportOptions options;
  options.purpose = Purpose::kTraining;
  ModelBuilder m(17);
  m.input("x", {int64_t{2}, int64_t{3}}).output("y");
  m.floats("n", {3}, {1, 1, 1});
  m.node("Identity", {"n"}, {"one"});
  m.node("Identity", {"n"}, {"two"});
  m.node("Mul", {"x", "one"}, {"s"});
  m.node("Add", {"s", "two"}, {"y"});
  EXPECT_EQ(import_model(m, options).weights, (std::set<std::string>{"n"}));
}

}  // namespace
}  // namespace tw::frontend
