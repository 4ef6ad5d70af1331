// Operators that are not known, and graphs that do not hold together.
#include "tests/error/bad_models.h"

namespace tw::frontend::test {
namespace {

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

const BadModel kModels[] = {
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
    {"value_never_made",
     Kind::kUser,
     {"node 'node_y' (Relu) reads 'nothing'"},
     [](ModelBuilder& m, ImportOptions&) {
       m.output("y");
       m.node("Relu", {"nothing"}, {"y"});
     }},
    {"cycle",
     Kind::kUser,
     {"'node_a' (Add)", "'node_b' (Relu)", "need each other's outputs"},
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
};

}  // namespace

std::span<const BadModel> bad_graphs() { return kModels; }

}  // namespace tw::frontend::test
