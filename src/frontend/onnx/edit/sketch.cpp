#include "frontend/onnx/edit/sketch.h"

#include <onnx-ml.pb.h>

#include "frontend/onnx/file/element_type.h"

namespace tw::frontend {
namespace {

constexpr int64_t kIrVersion = 10;  // the first with metadata of nodes

void describe(onnx::ValueInfoProto& proto, const SketchValue& value) {
  proto.set_name(value.name);
  onnx::TypeProto::Tensor& tensor = *proto.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(onnx_type(value.type.type));
  onnx::TensorShapeProto& shape = *tensor.mutable_shape();
  for (const int64_t extent : value.type.shape) shape.add_dim()->set_dim_value(extent);
}

}  // namespace

std::string onnx_bytes(const Sketch& sketch) {
  onnx::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("tilewright");
  onnx::OperatorSetIdProto& opset = *model.add_opset_import();
  opset.set_domain("tilewright");
  opset.set_version(1);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name(sketch.name);
  for (const SketchValue& v : sketch.inputs) describe(*graph.add_input(), v);
  for (const SketchValue& v : sketch.outputs) describe(*graph.add_output(), v);
  for (const SketchValue& v : sketch.inner) describe(*graph.add_value_info(), v);
  for (const SketchNode& n : sketch.nodes) {
    onnx::NodeProto& node = *graph.add_node();
    node.set_name(n.name);
    node.set_op_type(n.kind);
    node.set_domain("tilewright");
    for (const std::string& in : n.inputs) node.add_input(in);
    for (const std::string& out : n.outputs) node.add_output(out);
    for (const auto& [key, value] : n.facts) {
      onnx::StringStringEntryProto& fact = *node.add_metadata_props();
      fact.set_key(key);
      fact.set_value(value);
    }
  }
  return model.SerializeAsString();
}

}  // namespace tw::frontend
