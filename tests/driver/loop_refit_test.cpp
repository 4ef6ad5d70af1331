// Imported models with loops: other weights, several shapes.
#include <gtest/gtest.h>

#include "tests/driver/loop_models.h"
#include "tests/driver/refit_models.h"

namespace tw::driver::test {
namespace {

using graph::Graph;
using tw::testing::Dim;
using tw::testing::ModelBuilder;

// Small ones: a state stays in range over all turns.
void weight_of(ModelBuilder& model, const std::string& name, const std::vector<int64_t>& dims, int seed) {
  weight(model, name, dims, seed, .25F);
}

void value(google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& list, const std::string& name,
           const std::vector<Dim>& dims, int type = onnx::TensorProto::FLOAT) {
  ModelBuilder::value(list.Add(), name, dims, type);
}

// body(i, go, state) -> (go, next): what a Loop takes.
onnx::GraphProto& loop_body(onnx::NodeProto& node, const std::string& state, const std::string& next,
                            const std::vector<Dim>& dims) {
  onnx::GraphProto& body = tw::testing::set_graph(node, "body");
  const std::string prefix = state + ".";
  value(*body.mutable_input(), prefix + "i", {}, onnx::TensorProto::INT64);
  value(*body.mutable_input(), prefix + "go", {}, onnx::TensorProto::BOOL);
  value(*body.mutable_input(), state, dims);
  value(*body.mutable_output(), prefix + "go", {}, onnx::TensorProto::BOOL);
  value(*body.mutable_output(), next, dims);
  return body;
}

// h = tanh(h w + f(x + b)) nine times, where f is a loop of ten turns of its own: z = z u + c.
void nested(ModelBuilder& model, int seed) {
  model.input("x", {std::string("batch"), int64_t{20}}).input("h0", {std::string("batch"), int64_t{20}});
  weight_of(model, "w", {20, 20}, seed);
  weight_of(model, "b", {20}, seed);
  weight_of(model, "u", {20, 20}, seed);
  weight_of(model, "c", {20}, seed);
  model.ints("nine", {9});
  model.ints("ten", {10});
  onnx::NodeProto& outer = model.node("Loop", {"nine", "", "h0"}, {"y"});
  const std::vector<Dim> row{std::string("batch"), int64_t{20}};
  onnx::GraphProto& body = loop_body(outer, "h", "h.next", row);
  auto& nodes = *body.mutable_node();
  ModelBuilder::add_node(nodes, "Add", {"x", "b"}, {"z0"});
  onnx::NodeProto& inner = ModelBuilder::add_node(nodes, "Loop", {"ten", "", "z0"}, {"f"});
  onnx::GraphProto& inside = loop_body(inner, "z", "z.next", row);
  ModelBuilder::add_node(*inside.mutable_node(), "MatMul", {"z", "u"}, {"zu"});
  ModelBuilder::add_node(*inside.mutable_node(), "Add", {"zu", "c"}, {"z.next"});
  ModelBuilder::add_node(nodes, "MatMul", {"h", "w"}, {"hw"});
  ModelBuilder::add_node(nodes, "Add", {"hw", "f"}, {"sum"});
  ModelBuilder::add_node(nodes, "Tanh", {"sum"}, {"h.next"});
  model.output("y");
}

// A GRU of 20 steps with all of its weights.
void recurrent(ModelBuilder& model, int seed) {
  model.input("x", {int64_t{20}, std::string("batch"), int64_t{12}});
  weight_of(model, "w", {1, 48, 12}, seed);
  weight_of(model, "r", {1, 48, 16}, seed);
  weight_of(model, "b", {1, 96}, seed);
  tw::testing::set_int(model.node("GRU", {"x", "w", "r", "b"}, {"y", "h"}), "hidden_size", 16);
  model.output("y").output("h");
}

void expect_loops_refit(const Model& make, const CompileOptions& options) {
  EXPECT_GT(repeats(compile(make, 1, options)), 0U);
  expect_refits(make, options);
}

TEST(LoopRefit, RefitGivesWhatACompilationGives) {
  for (const Model& make : {Model(nested), Model(recurrent)}) {
    expect_loops_refit(make, for_batches({3}));
    CompileOptions narrow = for_batches({3});
    narrow.dtype = DataType::bf16();
    expect_loops_refit(make, narrow);
    CompileOptions several = for_batches({1, 5});
    several.target = "cpu:x86-64-v4,cpu:x86-64-v3";
    expect_loops_refit(make, several);
    CompileOptions plain = for_batches({3});
    plain.all_optional_off = true;
    expect_loops_refit(make, plain);
  }
}

TEST(LoopRefit, ImportedLoopsAreRight) {
  for (const Model& make : {Model(nested), Model(recurrent)}) {
    const Graph g = imports(make, 1, for_batches({3}))[0].graph;
    expect_right(g);
  }
  EXPECT_EQ(repeats(compile(nested, 1, for_batches({3}))), 2U);
}

TEST(LoopRefit, EntriesOfSeveralShapes) {
  const CompileOptions options = for_batches({1, 5});
  const Compiled made = compile(recurrent, 1, options);
  EXPECT_EQ(repeats(made, 0), 1U);
  EXPECT_EQ(repeats(made, 1), 1U);
  const std::vector<uint8_t> artefact = artefact_bytes(made);
  for (const frontend::ImportResult& model : imports(recurrent, 1, options)) {
    const artefact::VerifyReport report =
        artefact::verify_artefact(artefact, &model.graph, random_arrays(model.graph, 2), {});
    EXPECT_TRUE(report.ok()) << faults(report);
  }
  const size_t one = compile(recurrent, 1, for_batches({5})).sections.at("weights").size();
  EXPECT_LT(made.sections.at("weights").size(), one + one / 10) << "zeros of each shape, all else once";
}

}  // namespace
}  // namespace tw::driver::test
