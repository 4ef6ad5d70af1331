// Imported models with loops: other weights, several shapes.
#include <gtest/gtest.h>

#include "driver/refit.h"
#include "frontend/onnx/file/tensor_data.h"
#include "support/join.h"
#include "tests/driver/loop_models.h"
#include "tests/onnx/model_builder.h"

namespace tw::driver::test {
namespace {

using graph::Graph;
using tw::testing::Dim;
using tw::testing::ModelBuilder;

std::vector<float> elements(int64_t count, int seed, int tensor) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    const auto mixed = static_cast<uint64_t>(i * 2'654'435'761 + seed * 40'503 + tensor * 7'919) * 0x9e3779b97f4a7c15;
    values.push_back((static_cast<float>(mixed >> 40) / 0x1p23F - 1) / 4);
  }
  return values;
}

void weight_of(ModelBuilder& model, const std::string& name, const std::vector<int64_t>& dims, int seed) {
  model.floats(name, dims, elements(num_elements(dims), seed, model.graph().initializer_size()));
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

using Model = std::function<void(ModelBuilder& model, int seed)>;

CompileOptions for_batches(const std::vector<int64_t>& batches) {
  CompileOptions options;
  options.imports.clear();
  for (const int64_t batch : batches) options.imports.push_back({{}, {{"batch", batch}}, {}});
  return options;
}

std::vector<frontend::ImportResult> imports(const Model& make, int seed, const CompileOptions& options) {
  ModelBuilder model;
  make(model, seed);
  return mapped(options.imports, [&](const frontend::ImportOptions& i) {
    return frontend::import_onnx_bytes(model.bytes(), "", graph::test::table(), i);
  });
}

Compiled compile(const Model& make, int seed, const CompileOptions& options) {
  return compile_imported(imports(make, seed, options), options);
}

std::shared_ptr<frontend::Weights> weights_of(const Model& make, int seed) {
  ModelBuilder model;
  make(model, seed);
  auto weights = std::make_shared<frontend::Weights>();
  for (const onnx::TensorProto& tensor : model.graph().initializer()) {
    const frontend::TensorData data = frontend::read_tensor(tensor, frontend::ExternalData(""));
    weights->emplace(tensor.name(), frontend::Weight{data.type, data.bytes});
  }
  return weights;
}

std::vector<uint8_t> bytes_of(const Refitted& made) {
  return format::serialize_artefact(made.manifest, made.sections());
}

void expect_refits(const Model& make, CompileOptions options) {
  const Compiled first = compile(make, 1, options);
  EXPECT_GT(repeats(first), 0U);
  options.plan_text = plan::to_string(first.plan);
  const std::vector<uint8_t> artefact = artefact_bytes(first), want = artefact_bytes(compile(make, 2, options));
  ASSERT_NE(artefact, want);
  const std::vector<uint8_t> got = bytes_of(refit(artefact, weights_of(make, 2)));
  EXPECT_TRUE(got == want);
  EXPECT_TRUE(bytes_of(refit(got, weights_of(make, 1))) == artefact) << "back again";
}

TEST(LoopRefit, RefitGivesWhatACompilationGives) {
  for (const Model& make : {Model(nested), Model(recurrent)}) {
    expect_refits(make, for_batches({3}));
    CompileOptions narrow = for_batches({3});
    narrow.dtype = DataType::bf16();
    expect_refits(make, narrow);
    CompileOptions several = for_batches({1, 5});
    several.target = "cpu:x86-64-v4,cpu:x86-64-v3";
    expect_refits(make, several);
    CompileOptions plain = for_batches({3});
    plain.all_optional_off = true;
    expect_refits(make, plain);
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
