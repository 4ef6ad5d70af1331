// Builds small ONNX models in tests, right and wrong ones.
#pragma once
#include <onnx-ml.pb.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <variant>
#include <vector>

namespace tw::testing {

/// An extent, a symbol, or (monostate) neither.
using Dim = std::variant<std::monostate, int64_t, std::string>;

class ModelBuilder {
 public:
  explicit ModelBuilder(int64_t opset = 17) {
    model_.set_ir_version(8);
    model_.mutable_graph()->set_name("test");
    if (opset > 0) opset_import("", opset);
  }

  void opset_import(const std::string& domain, int64_t version) {
    auto* entry = model_.add_opset_import();
    entry->set_domain(domain);
    entry->set_version(version);
  }

  ModelBuilder& input(const std::string& name, const std::vector<Dim>& dims, int type = onnx::TensorProto::FLOAT) {
    value(model_.mutable_graph()->add_input(), name, dims, type);
    return *this;
  }
  ModelBuilder& output(const std::string& name, const std::vector<Dim>& dims, int type = onnx::TensorProto::FLOAT) {
    value(model_.mutable_graph()->add_output(), name, dims, type);
    return *this;
  }
  /// An output of any shape.
  ModelBuilder& output(const std::string& name, int type = onnx::TensorProto::FLOAT) {
    auto* info = model_.mutable_graph()->add_output();
    info->set_name(name);
    info->mutable_type()->mutable_tensor_type()->set_elem_type(type);
    return *this;
  }
  ModelBuilder& value_info(const std::string& name, const std::vector<Dim>& dims, int type = onnx::TensorProto::FLOAT) {
    value(model_.mutable_graph()->add_value_info(), name, dims, type);
    return *this;
  }

  onnx::NodeProto& node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const std::string& domain = "") {
    return add_node(*model_.mutable_graph()->mutable_node(), op, inputs, outputs, domain);
  }
  static onnx::NodeProto& add_node(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, const std::string& op,
                                   const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                                   const std::string& domain = "") {
    onnx::NodeProto& node = *nodes.Add();
    node.set_op_type(op);
    node.set_domain(domain);
    node.set_name("node_" + outputs.at(0));
    for (const std::string& name : inputs) node.add_input(name);
    for (const std::string& name : outputs) node.add_output(name);
    return node;
  }

  onnx::TensorProto& floats(const std::string& name, const std::vector<int64_t>& dims,
                            const std::vector<float>& values) {
    onnx::TensorProto& tensor = *model_.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    for (int64_t d : dims) tensor.add_dims(d);
    for (float v : values) tensor.add_float_data(v);
    return tensor;
  }
  onnx::TensorProto& ints(const std::string& name, const std::vector<int64_t>& values) {
    onnx::TensorProto& tensor = *model_.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::INT64);
    tensor.add_dims(static_cast<int64_t>(values.size()));
    for (int64_t v : values) tensor.add_int64_data(v);
    return tensor;
  }
  /// f32[elements] in a file of its own.
  onnx::TensorProto& external(const std::string& name, int64_t elements, const std::string& location,
                              const std::string& offset = "0") {
    onnx::TensorProto& tensor = floats(name, {elements}, {});
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, text] : {std::pair<std::string, std::string>{"location", location}, {"offset", offset}}) {
      auto* entry = tensor.add_external_data();
      entry->set_key(key);
      entry->set_value(text);
    }
    return tensor;
  }

  onnx::ModelProto& model() { return model_; }
  onnx::GraphProto& graph() { return *model_.mutable_graph(); }
  std::vector<std::byte> bytes() const {
    const std::string text = model_.SerializeAsString();
    std::vector<std::byte> result(text.size());
    if (!text.empty()) std::memcpy(result.data(), text.data(), text.size());
    return result;
  }

  static void value(onnx::ValueInfoProto* info, const std::string& name, const std::vector<Dim>& dims, int type) {
    info->set_name(name);
    auto* tensor = info->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (const Dim& dim : dims) {
      auto* d = tensor->mutable_shape()->add_dim();
      if (const auto* extent = std::get_if<int64_t>(&dim)) d->set_dim_value(*extent);
      if (const auto* symbol = std::get_if<std::string>(&dim)) d->set_dim_param(*symbol);
    }
  }

 private:
  onnx::ModelProto model_;
};

inline void set_int(onnx::NodeProto& node, const std::string& key, int64_t value) {
  auto* attribute = node.add_attribute();
  attribute->set_name(key);
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(value);
}
inline void set_ints(onnx::NodeProto& node, const std::string& key, const std::vector<int64_t>& values) {
  auto* attribute = node.add_attribute();
  attribute->set_name(key);
  attribute->set_type(onnx::AttributeProto::INTS);
  for (int64_t v : values) attribute->add_ints(v);
}
inline void set_float(onnx::NodeProto& node, const std::string& key, float value) {
  auto* attribute = node.add_attribute();
  attribute->set_name(key);
  attribute->set_type(onnx::AttributeProto::FLOAT);
  attribute->set_f(value);
}
inline void set_string(onnx::NodeProto& node, const std::string& key, const std::string& value) {
  auto* attribute = node.add_attribute();
  attribute->set_name(key);
  attribute->set_type(onnx::AttributeProto::STRING);
  attribute->set_s(value);
}
inline onnx::GraphProto& set_graph(onnx::NodeProto& node, const std::string& key) {
  auto* attribute = node.add_attribute();
  attribute->set_name(key);
  attribute->set_type(onnx::AttributeProto::GRAPH);
  return *attribute->mutable_g();
}

}  // namespace tw::testing
