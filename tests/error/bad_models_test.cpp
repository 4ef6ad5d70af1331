// Models that cannot be imported, each with the message its user reads: what, where, and what to do.
// Size: one row a bad model, kept in one table so that messages can be compared.
#include <gtest/gtest.h>

#include <functional>

#include "frontend/onnx/import.h"
#include "ops/list.h"
#include "tests/onnx/model_builder.h"

namespace tw::frontend {
namespace {

using testing::ModelBuilder;
using testing::set_int;
using testing::set_ints;

enum class Kind : uint8_t { kUser, kUnsupported };

struct BadModel {
  const char* name;
  Kind kind;
  std::vector<const char*> says;  // parts of the message
  std::function<void(ModelBuilder&, ImportOptions&)> build;
  int64_t opset = 17;
};

// One node with input x f32[2, 3] and output y.
onnx::NodeProto& simple(ModelBuilder& m, const std::string& op, const std::vector<std::string>& more = {}) {
  m.input("x", {int64_t{2}, int64_t{3}}).output("y");
  std::vector<std::string> inputs{"x"};
  inputs.insert(inputs.end(), more.begin(), more.end());
  return m.node(op, inputs, {"y"});
}

void nested_if(onnx::GraphProto& graph, int depth) {
  auto& node = ModelBuilder::add_node(*graph.mutable_node(), depth > 0 ? "If" : "Identity", {depth > 0 ? "yes" : "x"},
                                      {"y" + std::to_string(depth)});
  ModelBuilder::value(graph.add_output(), "y" + std::to_string(depth), {}, onnx::TensorProto::FLOAT);
  if (depth == 0) return;
  nested_if(testing::set_graph(node, "then_branch"), depth - 1);
  nested_if(testing::set_graph(node, "else_branch"), 0);
}

void made_up_branch(onnx::NodeProto& node, const std::string& branch, const std::string& op,
                    const std::string& output) {
  onnx::GraphProto& graph = testing::set_graph(node, branch);
  ModelBuilder::add_node(*graph.mutable_node(), op, {"x"}, {output});
  ModelBuilder::value(graph.add_output(), output, {}, onnx::TensorProto::FLOAT);
}

const std::vector<BadModel>& bad_models() {
  static const std::vector<BadModel> kModels = {
      {"made_up_operators",
       Kind::kUnsupported,
       {"MadeUp (opset 17), 2 nodes: 'node_a', 'node_b'", "Other (domain 'com.example', opset 3), 1 node: 'node_y'"},
       [](ModelBuilder& m, ImportOptions&) {
         m.opset_import("com.example", 3);
         m.input("x", {int64_t{2}}).output("y");
         m.node("MadeUp", {"x"}, {"a"});
         m.node("MadeUp", {"a"}, {"b"});
         m.node("Other", {"b"}, {"y"}, "com.example");
       }},
      {"made_up_operators_in_both_branches",
       Kind::kUnsupported,
       {"Gone (opset 17), 1 node: 'node_y/then_branch/node_t'", "Lost (opset 17), 1 node: 'node_y/else_branch/node_e'"},
       [](ModelBuilder& m, ImportOptions&) {
         m.input("c", {}, onnx::TensorProto::BOOL).input("x", {int64_t{2}}).output("y");
         auto& node = m.node("If", {"c"}, {"y"});
         made_up_branch(node, "then_branch", "Gone", "t");
         made_up_branch(node, "else_branch", "Lost", "e");
       }},
      {"made_up_operators_below_a_made_up_one",
       Kind::kUnsupported,
       {"MadeUp (opset 17), 1 node: 'node_a'", "Gone (opset 17), 1 node: 'node_y/then_branch/node_t'",
        "Lost (opset 17), 1 node: 'node_y/else_branch/node_e'"},
       [](ModelBuilder& m, ImportOptions&) {
         m.input("x", {int64_t{2}}).output("y");
         m.node("MadeUp", {"x"}, {"a"});
         auto& node = m.node("If", {"a"}, {"y"});
         made_up_branch(node, "then_branch", "Gone", "t");
         made_up_branch(node, "else_branch", "Lost", "e");
       }},
      {"values_that_must_be_known_are_one_line",
       Kind::kUnsupported,
       {"NonZero (opset 17), 2 nodes: 'node_b', 'node_d': input 'X' must be known at compile time"},
       [](ModelBuilder& m, ImportOptions&) {
         m.input("x", {int64_t{2}}).output("b", onnx::TensorProto::INT64).output("d", onnx::TensorProto::INT64);
         m.node("Abs", {"x"}, {"a"});
         m.node("NonZero", {"a"}, {"b"});
         m.node("Exp", {"x"}, {"c"});
         m.node("NonZero", {"c"}, {"d"});
       }},
      {"made_up_operator_before_dimensions",
       Kind::kUnsupported,
       {"MadeUp"},
       [](ModelBuilder& m, ImportOptions&) {
         m.input("x", {"batch"}).output("y");
         m.node("MadeUp", {"x"}, {"y"});
       }},
      {"no_opset_import",
       Kind::kUser,
       {"no opset_import"},
       [](ModelBuilder& m, ImportOptions&) { simple(m, "Relu"); },
       0},
      {"opset_too_new",
       Kind::kUnsupported,
       {"opset 99", "newest", "opset_version="},
       [](ModelBuilder& m, ImportOptions&) { simple(m, "Relu"); },
       99},
      {"operator_newer_than_opset",
       Kind::kUnsupported,
       {"Gelu (opset 17)", "'node_y'"},
       [](ModelBuilder& m, ImportOptions&) { simple(m, "Gelu"); }},
      {"no_outputs", Kind::kUser, {"no outputs"}, [](ModelBuilder& m, ImportOptions&) { m.input("x", {int64_t{2}}); }},
      {"unbound_dimension",
       Kind::kUser,
       {"'x' f32[batch, 3]", "--dim batch=1", "--shape x:1x3"},
       [](ModelBuilder& m, ImportOptions&) {
         m.input("x", {"batch", int64_t{3}}).output("y");
         m.node("Relu", {"x"}, {"y"});
       }},
      {"unnamed_dimension",
       Kind::kUser,
       {"'x' f32[?, 3]", "--shape x:1x3"},
       [](ModelBuilder& m, ImportOptions&) {
         m.input("x", {{}, int64_t{3}}).output("y");
         m.node("Relu", {"x"}, {"y"});
       }},
      {"shape_against_model",
       Kind::kUser,
       {"--shape x:2x4", "contradicts", "f32[2, 3]"},
       [](ModelBuilder& m, ImportOptions& o) {
         simple(m, "Relu");
         o.shapes["x"] = {2, 4};
       }},
      {"shape_of_no_input",
       Kind::kUser,
       {"--shape z", "no such input", "x"},
       [](ModelBuilder& m, ImportOptions& o) {
         simple(m, "Relu");
         o.shapes["z"] = {2, 3};
       }},
      {"dim_of_no_name",
       Kind::kUser,
       {"--dim batch=8", "no input"},
       [](ModelBuilder& m, ImportOptions& o) {
         simple(m, "Relu");
         o.dims["batch"] = 8;
       }},
      {"dim_against_shape",
       Kind::kUser,
       {"--shape x:4x3", "batch is already 2"},
       [](ModelBuilder& m, ImportOptions& o) {
         m.input("x", {"batch", int64_t{3}}).output("y");
         m.node("Relu", {"x"}, {"y"});
         o.dims["batch"] = 2;
         o.shapes["x"] = {4, 3};
       }},
      {"const_of_other_type",
       Kind::kUser,
       {"--const x", "i64[2, 3]", "f32[2, 3]"},
       [](ModelBuilder& m, ImportOptions& o) {
         simple(m, "Relu");
         o.constants["x"] = graph::RefTensor::zeros({DataType::i64(), {2, 3}});
       }},
      {"huge_input",
       Kind::kUser,
       {"input 'x'", "elements"},
       [](ModelBuilder& m, ImportOptions& o) {
         m.input("x", {"a", "b"}).output("y");
         m.node("Relu", {"x"}, {"y"});
         o.dims = {{"a", int64_t{1} << 40}, {"b", int64_t{1} << 40}};
       }},
      {"conv_channels",
       Kind::kUser,
       {"node 'node_y' (Conv, opset 17)", "f32[1, 3, 8, 8]", "f32[4, 2, 3, 3]", "channels"},
       [](ModelBuilder& m, ImportOptions&) {
         m.input("x", {int64_t{1}, int64_t{3}, int64_t{8}, int64_t{8}}).output("y");
         m.floats("w", {4, 2, 3, 3}, std::vector<float>(72, 1));
         m.node("Conv", {"x", "w"}, {"y"});
       }},
      {"conv_kernel_beyond_input",
       Kind::kUser,
       {"node 'node_y' (Conv", "spans 3", "has 2"},
       [](ModelBuilder& m, ImportOptions&) {
         m.input("x", {int64_t{1}, int64_t{1}, int64_t{2}}).output("y");
         m.floats("w", {1, 1, 3}, {1, 1, 1});
         m.node("Conv", {"x", "w"}, {"y"});
       }},
      {"pads_of_wrong_length",
       Kind::kUser,
       {"attribute 'pads' has 3 values, it must have 2"},
       [](ModelBuilder& m, ImportOptions&) {
         m.input("x", {int64_t{1}, int64_t{1}, int64_t{5}}).output("y");
         m.floats("w", {1, 1, 3}, {1, 1, 1});
         set_ints(m.node("Conv", {"x", "w"}, {"y"}), "pads", {1, 1, 1});
       }},
      {"matmul_extents",
       Kind::kUser,
       {"node 'node_y' (MatMul, opset 17)", "f32[2, 3]", "f32[4, 5]"},
       [](ModelBuilder& m, ImportOptions&) {
         simple(m, "MatMul", {"w"});
         m.floats("w", {4, 5}, std::vector<float>(20, 1));
       }},
      {"no_broadcast",
       Kind::kUser,
       {"node 'node_y' (Add", "[2, 3]", "[4]"},
       [](ModelBuilder& m, ImportOptions&) {
         simple(m, "Add", {"w"});
         m.floats("w", {4}, {1, 1, 1, 1});
       }},
      {"types_differ",
       Kind::kUser,
       {"node 'node_y' (Add", "f32[2, 3]", "i64[1]"},
       [](ModelBuilder& m, ImportOptions&) {
         simple(m, "Add", {"w"});
         m.ints("w", {1});
       }},
      {"attribute_of_other_kind",
       Kind::kUser,
       {"node 'node_y' (Softmax", "attribute 'axis' is of kind FLOAT, it must be INT"},
       [](ModelBuilder& m, ImportOptions&) { testing::set_float(simple(m, "Softmax"), "axis", 1); }},
      {"attribute_missing",
       Kind::kUser,
       {"node 'node_y' (Concat", "attribute 'axis' is required"},
       [](ModelBuilder& m, ImportOptions&) { simple(m, "Concat"); }},
      {"axis_out_of_range",
       Kind::kUser,
       {"attribute 'axis' is 2, outside [-2, 1]"},
       [](ModelBuilder& m, ImportOptions&) { set_int(simple(m, "Softmax"), "axis", 2); }},
      {"input_missing",
       Kind::kUser,
       {"node 'node_y' (MatMul", "input 1 is required"},
       [](ModelBuilder& m, ImportOptions&) { simple(m, "MatMul"); }},
      {"perm_repeats",
       Kind::kUser,
       {"'perm' is not a permutation"},
       [](ModelBuilder& m, ImportOptions&) {
         set_ints(simple(m, "Transpose"), "perm", {1, 1});
       }},
      {"reshape_elements",
       Kind::kUser,
       {"cannot reshape [2, 3] to [4, -1]"},
       [](ModelBuilder& m, ImportOptions&) {
         simple(m, "Reshape", {"s"});
         m.ints("s", {4, -1});
       }},
      {"reshape_overflow",
       Kind::kUser,
       {"cannot reshape", "too many elements"},
       [](ModelBuilder& m, ImportOptions&) {
         simple(m, "Reshape", {"s"});
         m.ints("s", {int64_t{1} << 40, int64_t{1} << 40});
       }},
      {"shape_computed_from_input",
       Kind::kUnsupported,
       {"Reshape (opset 17), 1 node: 'node_y'", "input 'shape' must be known at compile time", "--const s=@file.npy"},
       [](ModelBuilder& m, ImportOptions&) {
         m.input("x", {int64_t{2}, int64_t{3}}).input("s", {int64_t{2}}, onnx::TensorProto::INT64).output("y");
         m.node("Abs", {"s"}, {"s2"});
         m.node("Reshape", {"x", "s2"}, {"y"});
       }},
      {"slice_step_zero",
       Kind::kUser,
       {"step 0"},
       [](ModelBuilder& m, ImportOptions&) {
         m.ints("zero", {0});
         m.ints("one", {1});
         simple(m, "Slice", {"zero", "one", "zero", "zero"});
       }},
      {"split_does_not_add_up",
       Kind::kUser,
       {"axis 1 with 3 elements"},
       [](ModelBuilder& m, ImportOptions&) {
         m.ints("parts", {1, 1});
         m.input("x", {int64_t{2}, int64_t{3}}).output("y").output("z");
         set_int(m.node("Split", {"x", "parts"}, {"y", "z"}), "axis", 1);
       }},
      {"value_never_made",
       Kind::kUser,
       {"node 'node_y' (Relu) reads 'nothing'"},
       [](ModelBuilder& m, ImportOptions&) {
         m.output("y");
         m.node("Relu", {"nothing"}, {"y"});
       }},
      {"cycle",
       Kind::kUser,
       {"reads 'b'", "before"},
       [](ModelBuilder& m, ImportOptions&) {
         m.input("x", {int64_t{2}}).output("y");
         m.node("Add", {"x", "b"}, {"a"});
         m.node("Relu", {"a"}, {"b"});
         m.node("Relu", {"b"}, {"y"});
       }},
      {"value_made_twice",
       Kind::kUser,
       {"'y' is defined twice"},
       [](ModelBuilder& m, ImportOptions&) {
         simple(m, "Relu");
         m.node("Abs", {"x"}, {"y"});
       }},
      {"output_never_made",
       Kind::kUser,
       {"no node writes the model's output 'z'"},
       [](ModelBuilder& m, ImportOptions&) {
         simple(m, "Relu");
         m.output("z");
       }},
      {"declared_shape_differs",
       Kind::kUser,
       {"node 'node_y' (Relu", "value 'y'", "declares f32[2, 4]", "give f32[2, 3]"},
       [](ModelBuilder& m, ImportOptions&) {
         m.input("x", {int64_t{2}, int64_t{3}}).output("y", {int64_t{2}, int64_t{4}});
         m.node("Relu", {"x"}, {"y"});
       }},
      {"declared_type_differs",
       Kind::kUser,
       {"value 'a'", "declares i64[2, 3]"},
       [](ModelBuilder& m, ImportOptions&) {
         m.input("x", {int64_t{2}, int64_t{3}})
             .output("y")
             .value_info("a", {int64_t{2}, int64_t{3}}, onnx::TensorProto::INT64);
         m.node("Relu", {"x"}, {"a"});
         m.node("Relu", {"a"}, {"y"});
       }},
      {"initializer_too_short",
       Kind::kUser,
       {"tensor 'w'", "needs 4 elements, the model holds 3"},
       [](ModelBuilder& m, ImportOptions&) {
         simple(m, "Add", {"w"});
         m.floats("w", {4}, {1, 2, 3});
       }},
      {"raw_initializer_too_long",
       Kind::kUser,
       {"tensor 'w'", "needs 8 bytes, the model holds 9"},
       [](ModelBuilder& m, ImportOptions&) {
         simple(m, "Add", {"w"});
         m.floats("w", {2}, {}).set_raw_data("123456789");
       }},
      {"initializer_negative_extent",
       Kind::kUser,
       {"tensor 'w'", "negative"},
       [](ModelBuilder& m, ImportOptions&) {
         simple(m, "Add", {"w"});
         m.floats("w", {-4}, {});
       }},
      {"initializer_overflow",
       Kind::kUser,
       {"tensor 'w'", "more than"},
       [](ModelBuilder& m, ImportOptions&) {
         simple(m, "Add", {"w"});
         m.floats("w", {int64_t{1} << 32, int64_t{1} << 32}, {});
       }},
      {"string_input",
       Kind::kUnsupported,
       {"'x'", "STRING", "read by StringNormalizer 'node_y'", "StringNormalizer (opset 17)"},
       [](ModelBuilder& m, ImportOptions&) {
         m.input("x", {int64_t{2}}, onnx::TensorProto::STRING).output("y", onnx::TensorProto::STRING);
         m.node("StringNormalizer", {"x"}, {"y"});
       }},
      {"sequence_input",
       Kind::kUnsupported,
       {"'x' is a sequence", "SequenceLength"},
       [](ModelBuilder& m, ImportOptions&) {
         auto* input = m.graph().add_input();
         input->set_name("x");
         input->mutable_type()->mutable_sequence_type();
         m.output("y", onnx::TensorProto::INT64);
         m.node("SequenceLength", {"x"}, {"y"});
       }},
      {"sparse_initializer",
       Kind::kUnsupported,
       {"'w' is a sparse tensor"},
       [](ModelBuilder& m, ImportOptions&) {
         simple(m, "Add", {"w"});
         m.graph().add_sparse_initializer()->mutable_values()->set_name("w");
       }},
      {"training_batch_norm",
       Kind::kUnsupported,
       {"Dropout (opset 17), 1 node: 'node_y'", "training_mode"},
       [](ModelBuilder& m, ImportOptions&) {
         auto& yes = m.floats("yes", {}, {});
         yes.set_data_type(onnx::TensorProto::BOOL);
         yes.add_int32_data(1);
         simple(m, "Dropout", {"", "yes"});
       }},
      {"nested_too_deep",
       Kind::kUser,
       {"nested more than"},
       [](ModelBuilder& m, ImportOptions&) {
         m.input("x", {int64_t{2}});
         auto& yes = m.floats("yes", {}, {});
         yes.set_data_type(onnx::TensorProto::BOOL);
         yes.add_int32_data(1);
         nested_if(m.graph(), 34);
       }},
      {"function_calls_itself",
       Kind::kUser,
       {"nested more than"},
       [](ModelBuilder& m, ImportOptions&) {
         m.opset_import("local", 1);
         m.input("x", {int64_t{2}}).output("y");
         m.node("Recurse", {"x"}, {"y"}, "local");
         auto* function = m.model().add_functions();
         function->set_name("Recurse");
         function->set_domain("local");
         function->add_input("a");
         function->add_output("b");
         ModelBuilder::add_node(*function->mutable_node(), "Recurse", {"a"}, {"b"}, "local");
       }},
      {"endless_loop",
       Kind::kUnsupported,
       {"Loop (opset 17)", "more than"},
       [](ModelBuilder& m, ImportOptions&) {
         m.input("x", {int64_t{2}}).output("y");
         auto& body = testing::set_graph(m.node("Loop", {"", "", "x"}, {"y"}), "body");
         ModelBuilder::value(body.add_input(), "i", {}, onnx::TensorProto::INT64);
         ModelBuilder::value(body.add_input(), "go", {}, onnx::TensorProto::BOOL);
         ModelBuilder::value(body.add_input(), "s", {int64_t{2}}, onnx::TensorProto::FLOAT);
         ModelBuilder::value(body.add_output(), "go", {}, onnx::TensorProto::BOOL);
         ModelBuilder::value(body.add_output(), "s2", {int64_t{2}}, onnx::TensorProto::FLOAT);
         ModelBuilder::add_node(*body.mutable_node(), "Relu", {"s"}, {"s2"});
       }},
      {"attention_past_of_wrong_rank",
       Kind::kUser,
       {"node 'node_y' (Attention", "past_key [4, 6] must have rank 4"},
       [](ModelBuilder& m, ImportOptions&) {
         const std::vector<testing::Dim> four{int64_t{1}, int64_t{2}, int64_t{3}, int64_t{4}};
         m.input("q", four).input("p", {int64_t{4}, int64_t{6}}).output("y");
         m.node("Attention", {"q", "q", "q", "", "p"}, {"y"});
       },
       23},
      {"bits_of_another_width",
       Kind::kUser,
       {"node 'node_y' (BitCast", "f32 and f64 have different widths"},
       [](ModelBuilder& m, ImportOptions&) { set_int(simple(m, "BitCast"), "to", onnx::TensorProto::DOUBLE); },
       26},
      {"subgraph_of_scores_changes_their_shape",
       Kind::kUser,
       {"node 'node_y' (FlexAttention", "subgraph 'score_mod' must give one f32[1, 2, 3, 3]"},
       [](ModelBuilder& m, ImportOptions&) {
         m.opset_import("ai.onnx.preview", 1);
         m.input("q", {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{4}}).output("y");
         auto& body =
             testing::set_graph(m.node("FlexAttention", {"q", "q", "q"}, {"y"}, "ai.onnx.preview"), "score_mod");
         ModelBuilder::value(body.add_input(), "s", {}, onnx::TensorProto::FLOAT);
         ModelBuilder::value(body.add_output(), "t", {}, onnx::TensorProto::FLOAT);
         ModelBuilder::add_node(*body.mutable_node(), "Flatten", {"s"}, {"t"});
       },
       26},
      {"linear_attention_without_decay",
       Kind::kUser,
       {"node 'node_y' (LinearAttention", "update_rule 'gated_delta' needs a decay and a beta"},
       [](ModelBuilder& m, ImportOptions&) {
         m.input("q", {int64_t{1}, int64_t{2}, int64_t{8}}).output("y").output("s");
         auto& node = m.node("LinearAttention", {"q", "q", "q"}, {"y", "s"});
         set_int(node, "q_num_heads", 2);
         set_int(node, "kv_num_heads", 2);
       },
       27},
      {"state_of_another_kernel",
       Kind::kUser,
       {"node 'node_y' (CausalConvWithState", "past_state [2, 3, 5] must be [2, 3, 3]"},
       [](ModelBuilder& m, ImportOptions&) {
         m.input("x", {int64_t{2}, int64_t{3}, int64_t{7}}).input("p", {int64_t{2}, int64_t{3}, int64_t{5}});
         m.input("w", {int64_t{3}, int64_t{1}, int64_t{4}}).output("y").output("s");
         m.node("CausalConvWithState", {"x", "w", "", "p"}, {"y", "s"});
       },
       27},
      {"samples_that_depend_on_regions",
       Kind::kUnsupported,
       {"RoiAlign (opset 17), 1 node: 'node_y'", "fixed sampling_ratio"},
       [](ModelBuilder& m, ImportOptions&) {
         m.input("x", {int64_t{1}, int64_t{1}, int64_t{4}, int64_t{4}}).input("r", {int64_t{2}, int64_t{4}});
         m.input("b", {int64_t{2}}, onnx::TensorProto::INT64).output("y");
         m.node("RoiAlign", {"x", "r", "b"}, {"y"});
       }},
      {"more_samples_than_memory",
       Kind::kUnsupported,
       {"RoiAlign (opset 17), 1 node: 'node_y'", "100000000 places along one axis"},
       [](ModelBuilder& m, ImportOptions&) {
         m.input("x", {int64_t{1}, int64_t{1}, int64_t{4}, int64_t{4}}).input("r", {int64_t{2}, int64_t{4}});
         m.input("b", {int64_t{2}}, onnx::TensorProto::INT64).output("y");
         auto& node = m.node("RoiAlign", {"x", "r", "b"}, {"y"});
         set_int(node, "sampling_ratio", 10'000);
         set_int(node, "output_height", 10'000);
       }},
      {"convolution_without_channels",
       Kind::kUser,
       {"node 'node_y' (CausalConvWithState", "the weights [0, 1, 4] do not fit the input [2, 0, 7]"},
       [](ModelBuilder& m, ImportOptions&) {
         m.input("x", {int64_t{2}, int64_t{0}, int64_t{7}}).input("w", {int64_t{0}, int64_t{1}, int64_t{4}});
         m.output("y").output("s");
         m.node("CausalConvWithState", {"x", "w"}, {"y", "s"});
       },
       27},
      {"offsets_of_another_kernel",
       Kind::kUser,
       {"node 'node_y' (DeformConv", "offset [1, 4, 3, 3] do not fit"},
       [](ModelBuilder& m, ImportOptions&) {
         m.input("x", {int64_t{1}, int64_t{1}, int64_t{4}, int64_t{4}})
             .input("o", {int64_t{1}, int64_t{4}, int64_t{3}, int64_t{3}});
         m.input("w", {int64_t{1}, int64_t{1}, int64_t{2}, int64_t{2}}).output("y");
         m.node("DeformConv", {"x", "w", "o"}, {"y"});
       },
       19},
      {"transform_of_integers",
       Kind::kUser,
       {"node 'node_y' (DFT", "is i64, it must be a float"},
       [](ModelBuilder& m, ImportOptions&) {
         m.input("x", {int64_t{1}, int64_t{4}, int64_t{1}}, onnx::TensorProto::INT64)
             .output("y", onnx::TensorProto::INT64);
         m.node("DFT", {"x"}, {"y"});
       }},
      {"scatter_with_float_indices",
       Kind::kUser,
       {"node 'node_y' (ScatterND", "input 'indices' is f32[1, 1], it must hold integers"},
       [](ModelBuilder& m, ImportOptions&) {
         m.floats("i", {1, 1}, {0});
         m.floats("u", {1}, {7});
         m.input("x", {int64_t{2}}).output("y");
         m.node("ScatterND", {"x", "i", "u"}, {"y"});
       }},
      {"scale_per_axis_of_a_scalar",
       Kind::kUser,
       {"node 'node_y' (DequantizeLinear", "shape [2] for a scalar"},
       [](ModelBuilder& m, ImportOptions&) {
         m.floats("s", {2}, {1, 2});
         m.input("x", {}, onnx::TensorProto::INT8).output("y");
         set_int(m.node("DequantizeLinear", {"x", "s"}, {"y"}), "axis", 0);
       }},
      {"unsupported_input_of_a_node_without_outputs",
       Kind::kUnsupported,
       {"'x'", "STRING", "read by Sink ''"},
       [](ModelBuilder& m, ImportOptions&) {
         m.input("x", {int64_t{1}}, onnx::TensorProto::STRING).output("x", onnx::TensorProto::STRING);
         auto* sink = m.graph().add_node();
         sink->set_op_type("Sink");
         sink->add_input("x");
       }},
      {"huge_constant",
       Kind::kUser,
       {"node 'node_y' (ConstantOfShape", "elements"},
       [](ModelBuilder& m, ImportOptions&) {
         m.ints("s", {int64_t{1} << 30, int64_t{1} << 30});
         m.output("y");
         m.node("ConstantOfShape", {"s"}, {"y"});
       }},
  };
  return kModels;
}

class BadModels : public ::testing::TestWithParam<size_t> {};

TEST_P(BadModels, SayWhatIsWrong) {
  const BadModel& bad = bad_models().at(GetParam());
  ModelBuilder builder(bad.opset);
  ImportOptions options;
  bad.build(builder, options);
  const graph::OpTable ops = ops::all_ops();
  std::string message;
  Kind kind = Kind::kUser;
  try {
    import_onnx_bytes(builder.bytes(), "", ops, options);
    FAIL() << "the model was imported";
  } catch (const Unsupported& e) {
    kind = Kind::kUnsupported;
    message = e.what();
  } catch (const UserError& e) {
    message = e.what();
  }
  EXPECT_EQ(kind, bad.kind) << message;
  for (const char* part : bad.says)
    EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' is not in: " << message;
}

INSTANTIATE_TEST_SUITE_P(All, BadModels, ::testing::Range<size_t>(0, bad_models().size()),
                         [](const auto& info) { return std::string(bad_models().at(info.param).name); });

std::string message_of(std::span<const std::byte> bytes) {
  const graph::OpTable ops = ops::all_ops();
  try {
    import_onnx_bytes(bytes, "", ops, {});
  } catch (const UserError& e) {
    return e.what();
  }
  return "imported";
}

TEST(BadBytes, AreNotAModel) {
  EXPECT_NE(message_of({}).find("not an ONNX model or truncated"), std::string::npos);
  const std::string text = "\x08\xff\xff\xff this is not protobuf";
  EXPECT_NE(message_of(std::as_bytes(std::span(text))).find("not an ONNX model or truncated"), std::string::npos);
}

TEST(BadBytes, EveryTruncationIsRefusedOrImportedWithoutHarm) {
  ModelBuilder builder;
  simple(builder, "Add", {"w"});
  builder.floats("w", {3}, {1, 2, 3});
  const std::vector<std::byte> bytes = builder.bytes();
  const graph::OpTable ops = ops::all_ops();
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THROW(import_onnx_bytes(std::span(bytes).first(length), "", ops, {}), std::runtime_error) << length;
  }
  EXPECT_NO_THROW(import_onnx_bytes(bytes, "", ops, {}));
}

TEST(BadFiles, NameThePathAndTheReason) {
  const graph::OpTable ops = ops::all_ops();
  const auto message = [&](const std::string& path) -> std::string {
    try {
      import_onnx_file(path, ops, {});
    } catch (const UserError& e) {
      return e.what();
    }
    return "imported";
  };
  EXPECT_NE(message("/no/such/model.onnx").find("cannot read '/no/such/model.onnx': No such file"), std::string::npos);
  EXPECT_NE(message("/").find("not a regular file"), std::string::npos);
}

}  // namespace
}  // namespace tw::frontend
