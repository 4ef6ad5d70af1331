#include "tests/fuzz/mutate_model.h"

#include <random>

#include "tests/onnx/model_builder.h"

namespace tw::fuzz {
namespace {

using testing::ModelBuilder;

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : engine_(seed) {}

  size_t below(size_t bound) { return bound == 0 ? 0 : engine_() % bound; }

  void change_bytes(std::string& text) {
    if (text.empty()) return;
    const size_t at = below(text.size());
    switch (below(5)) {
      case 0:
        text[at] = static_cast<char>(engine_());
        break;
      case 1:
        text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 2:
        text.resize(at);
        break;
      case 3:
        text.insert(at, text.substr(below(text.size()), below(16)));
        break;
      default:
        text.erase(at, 1 + below(8));
        break;
    }
  }

  void change_field(onnx::ModelProto& model) {
    switch (below(12)) {
      case 0:
        change_opsets(model);
        break;
      case 1:
        model.set_ir_version(static_cast<int64_t>(below(14)));
        break;
      default:
        change_graph(graph_of(model));
        break;
    }
  }

 private:
  int64_t interesting() {
    constexpr int64_t kValues[] = {0,   1,   -1,      2,          3,         7,         8,         31,       64,
                                   100, 255, 1 << 16, -(1 << 16), 1LL << 31, 1LL << 40, INT64_MAX, INT64_MIN};
    return kValues[below(std::size(kValues))];
  }

  template <typename List>
  auto* any(List* list) {
    return list->empty() ? nullptr : list->Mutable(static_cast<int>(below(static_cast<size_t>(list->size()))));
  }

  // The main graph or, now and then, a subgraph of it.
  onnx::GraphProto& graph_of(onnx::ModelProto& model) {
    onnx::GraphProto* graph = model.mutable_graph();
    for (auto& node : *graph->mutable_node()) {
      for (auto& attribute : *node.mutable_attribute()) {
        if (attribute.has_g() && below(2) == 0) return *attribute.mutable_g();
      }
    }
    return *graph;
  }

  void change_opsets(onnx::ModelProto& model) {
    if (auto* opset = any(model.mutable_opset_import())) opset->set_version(static_cast<int64_t>(below(30)));
  }

  void change_graph(onnx::GraphProto& graph) {
    switch (below(10)) {
      case 0:
        change_value(any(below(2) ? graph.mutable_input() : graph.mutable_output()));
        break;
      case 1:
        change_value(any(graph.mutable_value_info()));
        break;
      case 2:
      case 3:
        change_tensor(any(graph.mutable_initializer()));
        break;
      case 4:
        if (auto* node = any(graph.mutable_node())) graph.add_node()->CopyFrom(*node);
        break;
      case 5:
        if (graph.node_size() > 1)
          graph.mutable_node()->SwapElements(0, static_cast<int>(below(static_cast<size_t>(graph.node_size()))));
        break;
      default:
        change_node(graph, any(graph.mutable_node()));
        break;
    }
  }

  void change_node(onnx::GraphProto& graph, onnx::NodeProto* node) {
    if (node == nullptr) return;
    switch (below(6)) {
      case 0:
        if (std::string* name = any(node->mutable_input())) *name = some_name(graph);
        break;
      case 1:
        if (std::string* name = any(node->mutable_output())) *name = some_name(graph);
        break;
      case 2:
        node->add_input(some_name(graph));
        break;
      case 3:
        if (node->attribute_size() > 0 && below(2)) {
          node->mutable_attribute()->RemoveLast();
        } else if (node->input_size() > 0) {
          node->mutable_input()->RemoveLast();
        }
        break;
      default:
        change_attribute(any(node->mutable_attribute()));
        break;
    }
  }

  void change_attribute(onnx::AttributeProto* a) {
    if (a == nullptr) return;
    switch (below(8)) {
      case 0:
        a->set_type(static_cast<onnx::AttributeProto::AttributeType>(1 + below(9)));
        break;
      case 1:
        a->add_ints(interesting());
        break;
      case 2:
        if (a->has_t()) change_tensor(a->mutable_t());
        break;
      default:
        break;
    }
    if (a->has_i()) a->set_i(interesting());
    if (a->has_f()) a->set_f(static_cast<float>(interesting()));
    if (a->ints_size() > 0) a->set_ints(static_cast<int>(below(static_cast<size_t>(a->ints_size()))), interesting());
    if (a->has_s() && below(4) == 0) change_bytes(*a->mutable_s());
  }

  void change_tensor(onnx::TensorProto* t) {
    if (t == nullptr) return;
    switch (below(5)) {
      case 0:
        t->set_data_type(static_cast<int32_t>(below(28)));
        break;
      case 1:
        t->add_dims(interesting());
        break;
      case 2:
        if (t->dims_size() > 0)
          t->set_dims(static_cast<int>(below(static_cast<size_t>(t->dims_size()))), interesting());
        break;
      default:
        if (t->int64_data_size() > 0) {
          t->set_int64_data(static_cast<int>(below(static_cast<size_t>(t->int64_data_size()))), interesting());
        } else if (t->has_raw_data() && t->raw_data().size() >= sizeof(int64_t)) {
          const int64_t value = interesting();
          std::memcpy(t->mutable_raw_data()->data() + below(t->raw_data().size() / sizeof(value)) * sizeof(value),
                      &value, sizeof(value));
        }
        break;
    }
  }

  void change_value(onnx::ValueInfoProto* value) {
    if (value == nullptr || !value->type().has_tensor_type()) return;
    auto* tensor = value->mutable_type()->mutable_tensor_type();
    auto* dim = any(tensor->mutable_shape()->mutable_dim());
    switch (below(6)) {
      case 0:
        tensor->set_elem_type(static_cast<int32_t>(below(28)));
        break;
      case 1:
        tensor->mutable_shape()->add_dim()->set_dim_value(interesting());
        break;
      case 2:
        tensor->mutable_shape()->add_dim()->set_dim_value(static_cast<int64_t>(below(5)));
        break;
      case 3:
        tensor->clear_shape();
        break;
      default:
        if (dim != nullptr) dim->set_dim_value(below(2) ? static_cast<int64_t>(below(9)) : interesting());
        break;
    }
  }

  // The name of a value of the graph, or none.
  std::string some_name(const onnx::GraphProto& graph) {
    std::vector<std::string> names{"", "new"};
    for (const auto& input : graph.input()) names.push_back(input.name());
    for (const auto& tensor : graph.initializer()) names.push_back(tensor.name());
    for (const auto& node : graph.node()) names.insert(names.end(), node.output().begin(), node.output().end());
    return names[below(names.size())];
  }

  std::mt19937_64 engine_;
};

}  // namespace

std::string mutated_model(const std::vector<std::string>& seeds, uint64_t seed, uint64_t iteration) {
  Mutator mutator(seed * 1000003 + iteration);
  std::string text = seeds[mutator.below(seeds.size())];
  const size_t changes = 1 + mutator.below(8);
  const bool of_fields = mutator.below(4) != 0;
  onnx::ModelProto model;
  if (of_fields && model.ParseFromString(text)) {
    for (size_t i = 0; i < changes; ++i) mutator.change_field(model);
    return model.SerializePartialAsString();
  }
  for (size_t i = 0; i < changes; ++i) mutator.change_bytes(text);
  return text;
}

std::vector<std::string> built_in_seeds() {
  std::vector<std::string> seeds;
  ModelBuilder conv;
  conv.input("x", {int64_t{1}, int64_t{2}, int64_t{5}, int64_t{5}}).output("y");
  conv.floats("w", {3, 2, 3, 3}, std::vector<float>(54, 0.5F));
  testing::set_ints(conv.node("Conv", {"x", "w"}, {"a"}), "pads", {1, 1, 1, 1});
  conv.node("Relu", {"a"}, {"b"});
  testing::set_ints(conv.node("MaxPool", {"b"}, {"y"}), "kernel_shape", {2, 2});
  seeds.push_back(conv.model().SerializeAsString());
  ModelBuilder reshape;
  reshape.input("x", {int64_t{2}, int64_t{6}}).output("y");
  reshape.ints("s", {3, -1});
  reshape.node("Reshape", {"x", "s"}, {"a"});
  reshape.node("Shape", {"a"}, {"b"});
  reshape.node("Gather", {"b", "i"}, {"c"});
  reshape.ints("i", {1});
  reshape.node("Expand", {"a", "c"}, {"d"});
  testing::set_int(reshape.node("Softmax", {"d"}, {"y"}), "axis", -1);
  seeds.push_back(reshape.model().SerializeAsString());
  return seeds;
}

}  // namespace tw::fuzz
