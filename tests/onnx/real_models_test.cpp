// What files of real exporters have that the specification does not: stale shapes, unnamed dimensions, nodes out of
// order.
#include <gtest/gtest.h>

#include "frontend/onnx/importer.h"
#include "tests/onnx/import_model.h"

namespace tw::frontend {
namespace {

using namespace testing;

std::string all_warnings(const ImportResult& result) {
  std::string text;
  for (const std::string& warning : result.warnings) text += warning + "\n";
  return text;
}

TEST(DeclaredShapes, TheGraphsOwnShapeWins) {
  ModelBuilder m;
  m.input("x", {int64_t{2}, int64_t{3}}).value_info("a", {int64_t{6}}).output("y", {int64_t{2}, int64_t{4}});
  m.node("Relu", {"x"}, {"a"});
  m.node("Neg", {"a"}, {"y"});
  const ImportResult result = import_model(m);
  EXPECT_EQ(result.graph.value(result.graph.outputs[0]).type.shape, (Shape{2, 3}));
  const std::string said = all_warnings(result);
  EXPECT_NE(said.find("value 'a': the model declares f32[6], its inputs give f32[2,3]"), std::string::npos) << said;
  EXPECT_NE(said.find("value 'y': the model declares f32[2,4], its inputs give f32[2,3]"), std::string::npos) << said;
  EXPECT_EQ(result.warnings.size(), 2u) << said;
}

TEST(DeclaredShapes, ASymbolThatTheGraphContradicts) {
  ModelBuilder m;
  m.input("x", {std::string("batch")}).output("y", {std::string("batch")});
  set_int(m.node("Concat", {"x", "x"}, {"y"}), "axis", 0);
  const ImportResult result = import_model(m, {.shapes = {{"x", {4}}}});
  EXPECT_EQ(result.graph.value(result.graph.outputs[0]).type.shape, (Shape{8}));
  EXPECT_EQ(result.warnings.size(), 1u);
}

TEST(UnknownDimensions, MinusOneAndQuestionMarksAreOnesOfTheirOwn) {
  ModelBuilder m;
  m.input("x", {int64_t{-1}, int64_t{3}, std::string("?"), std::string("?")})
      .output("y", {int64_t{-1}, int64_t{3}, std::string("?"), std::string("?")});
  m.node("Relu", {"x"}, {"y"});
  const ImportResult result = import_model(m, {.shapes = {{"x", {2, 3, 48, 192}}}});
  EXPECT_EQ(result.graph.value(result.graph.inputs[0]).type.shape, (Shape{2, 3, 48, 192}));
  try {
    import_model(m);
    FAIL() << "dimensions are unknown";
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("--shape x:1x3x224x224 (examples"), std::string::npos) << e.what();
    EXPECT_EQ(std::string(e.what()).find("--dim ?"), std::string::npos) << e.what();
  }
}

TEST(NodeOrder, NodesAreSortedBehindWhatTheyRead) {
  ModelBuilder m;
  m.input("x", {int64_t{2}}).output("y");
  m.node("Sub", {"b", "a"}, {"y"});
  m.node("Neg", {"a"}, {"b"});
  m.node("Relu", {"x"}, {"a"});
  const std::string said = all_warnings(import_model(m));
  EXPECT_NE(said.find("graph 'test'"), std::string::npos) << said;
  EXPECT_NE(said.find("'node_y' (Sub)"), std::string::npos) << said;
  EXPECT_EQ(run(m, {tensor({2}, {3, -1})}).floats, (std::vector<double>{-6, 0}));
}

// What a branch names like the node around it is its own.
TEST(NodeOrder, BranchesReadFromOutsideOnlyWhatTheyDoNotDefine) {
  ModelBuilder m;
  m.input("x", {int64_t{2}}).output("y");
  onnx::NodeProto& branch = m.node("If", {"yes"}, {"y"});
  for (const char* key : {"then_branch", "else_branch"}) {
    auto* attribute = branch.add_attribute();
    attribute->set_name(key);
    attribute->set_type(onnx::AttributeProto::GRAPH);
    ModelBuilder::add_node(*attribute->mutable_g()->mutable_node(), "Neg", {"late"}, {"y"});
    attribute->mutable_g()->add_output()->set_name("y");
  }
  m.node("Relu", {"x"}, {"late"});
  onnx::TensorProto& yes = m.ints("yes", {1});
  yes.set_data_type(onnx::TensorProto::BOOL);
  yes.clear_dims();
  yes.clear_int64_data();
  yes.add_int32_data(1);
  EXPECT_EQ(run(m, {tensor({2}, {3, -1})}).floats, (std::vector<double>{-3, 0}));
  std::vector<std::string> warnings = sort_nodes(m.model());
  EXPECT_EQ(warnings.size(), 1u);
  EXPECT_EQ(m.graph().node(0).op_type(), "Relu");
  EXPECT_TRUE(sort_nodes(m.model()).empty());
}

// Indices of more elements than are folded wherever they stand, computed by several operators.
TEST(LargeConstants, IndicesAreEvaluatedWhenTheyAreAskedFor) {
  constexpr int64_t kRows = 40'000;
  ModelBuilder m;
  m.input("x", {kRows, int64_t{2}}).input("u", {kRows}).output("y");
  std::vector<int64_t> numbers(kRows);
  for (int64_t i = 0; i < kRows; ++i) numbers[i] = kRows - 1 - i;
  m.ints("flat", numbers);
  m.ints("shape", {-1, 1});
  m.ints("none", std::vector<int64_t>(kRows, 0));
  m.node("Reshape", {"flat", "shape"}, {"rows"});
  m.node("Reshape", {"none", "shape"}, {"zeros"});
  set_int(m.node("Concat", {"rows", "zeros"}, {"at"}), "axis", 1);
  m.node("ScatterND", {"x", "at", "u"}, {"y"});
  std::vector<double> x(2 * kRows, 7), u(kRows);
  for (int64_t i = 0; i < kRows; ++i) u[i] = static_cast<double>(i);
  const graph::RefTensor y = run(m, {tensor({kRows, 2}, x), tensor({kRows}, u)});
  for (const int64_t i : {int64_t{0}, int64_t{1}, kRows - 1}) {
    EXPECT_EQ(y.floats[2 * i], static_cast<double>(kRows - 1 - i));
    EXPECT_EQ(y.floats[2 * i + 1], 7);
  }
}

}  // namespace
}  // namespace tw::frontend
