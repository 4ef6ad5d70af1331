// The public entry points.
#include "frontend/onnx/import.h"

#include <algorithm>
#include <filesystem>

#include "frontend/onnx/file/model_file.h"
#include "frontend/onnx/importer.h"
#include "frontend/onnx/limits.h"

namespace tw::frontend {
ImportResult import_onnx_file(const std::string& path, const graph::OpTable& ops, const ImportOptions& options) {
  const onnx::ModelProto model = read_model(path);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return Importer(model, folder.empty() ? "." : folder, ops, options).run();
}

ImportResult import_onnx_bytes(std::span<const std::byte> bytes, const std::string& base_directory,
                               const graph::OpTable& ops, const ImportOptions& options) {
  const onnx::ModelProto model = read_model(bytes);
  return Importer(model, base_directory, ops, options).run();
}

graph::RefTensor read_tensor_proto(std::span<const std::byte> bytes) {
  const TensorData data = read_tensor(read_tensor_message(bytes), ExternalData(""));
  return graph::RefTensor::from_bytes(data.type, *data.bytes);
}

ModelSummary summarize_onnx_file(const std::string& path) {
  const onnx::ModelProto model = read_model(path);
  ModelSummary summary;
  std::set<std::string> initialized;
  for (const auto& tensor : model.graph().initializer()) initialized.insert(tensor.name());
  for (const auto& input : model.graph().input()) {
    if (initialized.count(input.name()) == 0) summary.inputs.push_back({input.name(), describe_type(input)});
  }
  for (const auto& output : model.graph().output()) summary.outputs.push_back({output.name(), describe_type(output)});
  for (const auto& opset : model.opset_import()) summary.opsets[canonical_domain(opset.domain())] = opset.version();
  for (const auto& node : model.graph().node()) ++summary.operators[node.op_type()];
  summary.initializers = model.graph().initializer_size();
  summary.ir_version = model.ir_version();
  summary.producer = model.producer_name();
  return summary;
}

}  // namespace tw::frontend
