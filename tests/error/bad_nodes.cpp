// Nodes whose inputs or attributes do not fit their operator.
#include "tests/error/bad_models.h"

namespace tw::frontend::test {
namespace {

const BadModel kModels[] = {
    {"conv_channels",
     Kind::kUser,
     {"node 'node_y' (Conv, opset 17)", "f32[1,3,8,8]", "f32[4,2,3,3]", "channels"},
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
     {"node 'node_y' (MatMul, opset 17)", "f32[2,3]", "f32[4,5]"},
     [](ModelBuilder& m, ImportOptions&) {
       simple(m, "MatMul", {"w"});
       m.floats("w", {4, 5}, std::vector<float>(20, 1));
     }},
    {"no_broadcast",
     Kind::kUser,
     {"node 'node_y' (Add", "[2,3]", "[4]"},
     [](ModelBuilder& m, ImportOptions&) {
       simple(m, "Add", {"w"});
       m.floats("w", {4}, {1, 1, 1, 1});
     }},
    {"types_differ",
     Kind::kUser,
     {"node 'node_y' (Add", "f32[2,3]", "i64[1]"},
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
     {"cannot reshape [2,3] to [4,-1]"},
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
    {"training_batch_norm",
     Kind::kUnsupported,
     {"Dropout (opset 17), 1 node: 'node_y'", "training_mode"},
     [](ModelBuilder& m, ImportOptions&) {
       auto& yes = m.floats("yes", {}, {});
       yes.set_data_type(onnx::TensorProto::BOOL);
       yes.add_int32_data(1);
       simple(m, "Dropout", {"", "yes"});
     }},
    {"attention_past_of_wrong_rank",
     Kind::kUser,
     {"node 'node_y' (Attention", "past_key [4,6] must have rank 4"},
     [](ModelBuilder& m, ImportOptions&) {
       const std::vector<testing::Dim> four{int64_t{1}, int64_t{2}, int64_t{3}, int64_t{4}};
       m.input("q", four).input("p", {int64_t{4}, int64_t{6}}).output("y");
       m.node("Attention", {"q", "q", "q", "", "p"}, {"y"});
     },
     23},
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
     {"node 'node_y' (ScatterND", "input 'indices' is f32[1,1], it must hold integers"},
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
    {"huge_constant",
     Kind::kUser,
     {"node 'node_y' (ConstantOfShape", "elements"},
     [](ModelBuilder& m, ImportOptions&) {
       m.ints("s", {int64_t{1} << 30, int64_t{1} << 30});
       m.output("y");
       m.node("ConstantOfShape", {"s"}, {"y"});
     }},
    {"bits_of_another_width",
     Kind::kUser,
     {"node 'node_y' (BitCast", "f32 and f64 have different widths"},
     [](ModelBuilder& m, ImportOptions&) { set_int(simple(m, "BitCast"), "to", onnx::TensorProto::DOUBLE); },
     26},
    {"subgraph_of_scores_changes_their_shape",
     Kind::kUser,
     {"node 'node_y' (FlexAttention", "subgraph 'score_mod' must give one f32[1,2,3,3]"},
     [](ModelBuilder& m, ImportOptions&) {
       m.opset_import("ai.onnx.preview", 1);
       m.input("q", {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{4}}).output("y");
       auto& body = testing::set_graph(m.node("FlexAttention", {"q", "q", "q"}, {"y"}, "ai.onnx.preview"), "score_mod");
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
     {"node 'node_y' (CausalConvWithState", "past_state [2,3,5] must be [2,3,3]"},
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
     {"node 'node_y' (CausalConvWithState", "the weights [0,1,4] do not fit the input [2,0,7]"},
     [](ModelBuilder& m, ImportOptions&) {
       m.input("x", {int64_t{2}, int64_t{0}, int64_t{7}}).input("w", {int64_t{0}, int64_t{1}, int64_t{4}});
       m.output("y").output("s");
       m.node("CausalConvWithState", {"x", "w"}, {"y", "s"});
     },
     27},
    {"offsets_of_another_kernel",
     Kind::kUser,
     {"node 'node_y' (DeformConv", "offset [1,4,3,3] do not fit"},
     [](ModelBuilder& m, ImportOptions&) {
       m.input("x", {int64_t{1}, int64_t{1}, int64_t{4}, int64_t{4}})
           .input("o", {int64_t{1}, int64_t{4}, int64_t{3}, int64_t{3}});
       m.input("w", {int64_t{1}, int64_t{1}, int64_t{2}, int64_t{2}}).output("y");
       m.node("DeformConv", {"x", "w", "o"}, {"y"});
     },
     19},
};

}  // namespace

std::span<const BadModel> bad_nodes() { return kModels; }

}  // namespace tw::frontend::test
