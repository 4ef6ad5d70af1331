// Dimensions, shapes and constants that the caller gives, or does not.
#include "tests/error/bad_models.h"

namespace tw::frontend::test {
namespace {

const BadModel kModels[] = {
    {"unbound_dimension",
     Kind::kUser,
     {"'x' is f32[batch,3]", "--dim batch=1", "--shape x:1x3"},
     [](ModelBuilder& m, ImportOptions&) {
       m.input("x", {"batch", int64_t{3}}).output("y");
       m.node("Relu", {"x"}, {"y"});
     }},
    {"unnamed_dimension",
     Kind::kUser,
     {"'x' is f32[?,3]", "--shape x:1x3"},
     [](ModelBuilder& m, ImportOptions&) {
       m.input("x", {{}, int64_t{3}}).output("y");
       m.node("Relu", {"x"}, {"y"});
     }},
    {"dimensions_of_one_letter_and_of_frames",
     Kind::kUser,
     {"--dim H=224 --dim w=224 or --shape x:224x224x3", "--dim num_frames=128 or --shape y:128x80"},
     [](ModelBuilder& m, ImportOptions&) {
       m.input("x", {"H", "w", int64_t{3}}).input("y", {"num_frames", int64_t{80}}).output("z").output("v");
       m.node("Relu", {"x"}, {"z"});
       m.node("Relu", {"y"}, {"v"});
     }},
    {"shape_against_model",
     Kind::kUser,
     {"--shape x:2x4", "contradicts", "f32[2,3]"},
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
     {"--const x", "i64[2,3]", "f32[2,3]"},
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
    {"shape_computed_from_input",
     Kind::kUnsupported,
     {"Reshape (opset 17), 1 node: 'node_y'", "input 'shape' must be known at compile time", "--const s=@file.npy"},
     [](ModelBuilder& m, ImportOptions&) {
       m.input("x", {int64_t{2}, int64_t{3}}).input("s", {int64_t{2}}, onnx::TensorProto::INT64).output("y");
       m.node("Abs", {"s"}, {"s2"});
       m.node("Reshape", {"x", "s2"}, {"y"});
     }},
};

}  // namespace

std::span<const BadModel> bad_bindings() { return kModels; }

}  // namespace tw::frontend::test
