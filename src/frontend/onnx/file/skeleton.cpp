#include "frontend/onnx/file/skeleton.h"

#include <limits>

#include "support/error.h"

namespace tw::frontend {
namespace {

using OnTensor = std::function<void(onnx::TensorProto& tensor)>;

void visit_nodes(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, const OnTensor& visit);

void visit_graph(onnx::GraphProto& graph, const OnTensor& visit) {
  for (onnx::TensorProto& tensor : *graph.mutable_initializer()) visit(tensor);
  visit_nodes(*graph.mutable_node(), visit);
}

void visit_nodes(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, const OnTensor& visit) {
  for (onnx::NodeProto& node : nodes) {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_t()) visit(*attribute.mutable_t());
      for (onnx::TensorProto& tensor : *attribute.mutable_tensors()) visit(tensor);
      if (attribute.has_g()) visit_graph(*attribute.mutable_g(), visit);
      for (onnx::GraphProto& graph : *attribute.mutable_graphs()) visit_graph(graph, visit);
    }
  }
}

// All that says which elements a tensor has, and where.
void clear_data(onnx::TensorProto& tensor) {
  onnx::TensorProto empty;
  empty.set_name(tensor.name());
  empty.set_data_type(tensor.data_type());
  *empty.mutable_dims() = tensor.dims();
  tensor = std::move(empty);
}

// The import read what it needs: what cannot be read is needed by nothing.
void take_in(onnx::TensorProto& tensor, const ExternalData& files) {
  if (tensor.data_location() != onnx::TensorProto::EXTERNAL) return;
  graph::Bytes bytes;
  try {
    bytes = read_tensor(tensor, files).bytes;
  } catch (const UserError&) {
  } catch (const Unsupported&) {
  }
  clear_data(tensor);
  if (bytes != nullptr) tensor.set_raw_data(bytes->data(), bytes->size());
}

}  // namespace

std::string take_skeleton(onnx::ModelProto& model, const std::set<std::string>& weights,
                          const std::set<std::string>& needed, const ExternalData& files) {
  onnx::GraphProto& graph = *model.mutable_graph();
  for (onnx::TensorProto& tensor : *graph.mutable_initializer()) {
    if (weights.contains(tensor.name()) || !needed.contains(tensor.name()))
      clear_data(tensor);
    else
      take_in(tensor, files);
  }
  const OnTensor visit = [&](onnx::TensorProto& tensor) { take_in(tensor, files); };
  visit_nodes(*graph.mutable_node(), visit);
  for (onnx::FunctionProto& function : *model.mutable_functions()) visit_nodes(*function.mutable_node(), visit);
  std::string bytes;
  const bool fits = model.ByteSizeLong() <= static_cast<size_t>(std::numeric_limits<int>::max());
  if (!fits || !model.SerializeToString(&bytes)) return "";
  return bytes;
}

}  // namespace tw::frontend
