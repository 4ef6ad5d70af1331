// Declared types, initializers and inputs that are wrong or of a kind that no tensor has.
#include "tests/error/bad_models.h"

namespace tw::frontend::test {
namespace {

const BadModel kModels[] = {
    {"declared_type_differs",
     Kind::kUser,
     {"value 'a'", "declares i64[2,3]"},
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
    {"string_input_with_a_dimension_that_is_given",
     Kind::kUnsupported,
     {"'x'", "STRING", "Cut the model behind", "StringNormalizer (opset 17)"},
     [](ModelBuilder& m, ImportOptions& o) {
       m.input("x", {std::string("n")}, onnx::TensorProto::STRING).output("y", onnx::TensorProto::STRING);
       m.node("StringNormalizer", {"x"}, {"y"});
       o.dims["n"] = 2;
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
    {"unsupported_input_of_a_node_without_outputs",
     Kind::kUnsupported,
     {"'x'", "STRING", "read by Sink ''"},
     [](ModelBuilder& m, ImportOptions&) {
       m.input("x", {int64_t{1}}, onnx::TensorProto::STRING).output("x", onnx::TensorProto::STRING);
       auto* sink = m.graph().add_node();
       sink->set_op_type("Sink");
       sink->add_input("x");
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
};

}  // namespace

std::span<const BadModel> bad_values() { return kModels; }

}  // namespace tw::frontend::test
