// The public entry points.
#include "frontend/onnx/import.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "frontend/onnx/file/model_file.h"
#include "frontend/onnx/file/skeleton.h"
#include "frontend/onnx/importer.h"

namespace tw::frontend {

ImportResult import_model(onnx::ModelProto model, const std::string& folder, const graph::OpTable& ops,
                          const ImportOptions& options) {
  if (options.purpose == Purpose::kTraining) part_equal_parameters(*model.mutable_graph());
  std::vector<std::string> moved = sort_nodes(model);
  ImportResult result = Importer(model, folder, ops, options).run();
  result.warnings.insert(result.warnings.begin(), moved.begin(), moved.end());
  result.skeleton = take_skeleton(model, result.weights, result.needed, ExternalData(folder));
  return result;
}

std::string data_folder(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

ImportResult import_onnx_file(const std::string& path, const graph::OpTable& ops, const ImportOptions& options) {
  return import_model(read_model(path), data_folder(path), ops, options);
}

ImportResult import_onnx_bytes(std::span<const std::byte> bytes, const std::string& base_directory,
                               const graph::OpTable& ops, const ImportOptions& options) {
  return import_model(read_model(bytes), base_directory, ops, options);
}

graph::RefTensor read_tensor_proto(std::span<const std::byte> bytes) {
  const TensorData data = read_tensor(read_tensor_message(bytes), ExternalData(""));
  return graph::RefTensor::from_bytes(data.type, *data.bytes);
}

std::map<std::string, TensorType> initializer_types(std::span<const std::byte> bytes) {
  std::map<std::string, TensorType> types;
  const onnx::ModelProto model = read_model(bytes);
  for (const auto& tensor : model.graph().initializer()) {
    if (is_supported(tensor)) types.emplace(tensor.name(), tensor_type(tensor));
  }
  return types;
}

Weights read_initializers(const std::string& path) {
  const onnx::ModelProto model = read_model(path);
  const ExternalData files(data_folder(path));
  Weights weights;
  for (const auto& tensor : model.graph().initializer()) {
    if (!is_supported(tensor)) continue;
    TensorData data = read_tensor(tensor, files);
    weights.insert_or_assign(tensor.name(), Weight{std::move(data.type), std::move(data.bytes)});
  }
  return weights;
}

ModelSummary summarize_onnx_file(const std::string& path) {
  const onnx::ModelProto model = read_model(path);
  ModelSummary summary;
  std::set<std::string> initialized;
  for (const auto& tensor : model.graph().initializer()) initialized.insert(tensor.name());
  for (const auto& input : model.graph().input()) {
    if (initialized.count(input.name()) == 0)
      summary.inputs.push_back({input.name(), describe_type(input), is_open(input)});
  }
  for (const auto& output : model.graph().output()) summary.outputs.push_back({output.name(), describe_type(output)});
  for (const auto& opset : model.opset_import()) summary.opsets[canonical_domain(opset.domain())] = opset.version();
  for (const auto& node : model.graph().node()) ++summary.operators[node.op_type()];
  summary.initializers = model.graph().initializer_size();
  summary.ir_version = model.ir_version();
  summary.producer = model.producer_name();
  return summary;
}

std::string metadata_of(std::span<const std::byte> bytes) {
  const onnx::ModelProto model = read_model(bytes);
  using Json = nlohmann::ordered_json;
  Json properties = Json::object();
  for (const auto& property : model.metadata_props()) properties[property.key()] = property.value();
  const Json json = {{"producer_name", model.producer_name()},
                     {"producer_version", model.producer_version()},
                     {"domain", model.domain()},
                     {"description", model.doc_string()},
                     {"graph_name", model.graph().name()},
                     {"graph_description", model.graph().doc_string()},
                     {"version", model.model_version()},
                     {"custom_metadata_map", std::move(properties)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tw::frontend
