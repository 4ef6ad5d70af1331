// The public entry points.
#include "frontend/onnx/import.h"

#include <algorithm>
#include <filesystem>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/limits.h"
#include "frontend/onnx/model_file.h"

namespace tw::frontend {
namespace {

std::string first_nodes(const UnsupportedItem& item) {
  std::vector<std::string> names(item.nodes.begin(), item.nodes.begin() + std::min(item.nodes.size(), kMaxListedNodes));
  if (item.nodes.size() > kMaxListedNodes) names.push_back("...");
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string describe(const UnsupportedItem& item) {
  if (item.op.empty())
    return fmt::format("\n  {} (read by {})", item.reason, item.nodes.empty() ? "no node" : first_nodes(item));
  const std::string domain = item.domain.empty() ? "" : fmt::format("domain '{}', ", item.domain);
  const std::string version = item.opset > 0 ? fmt::format("opset {}", item.opset) : "not in opset_import";
  return fmt::format("\n  {} ({}{}), {} node{}: {}{}{}", item.op, domain, version, item.nodes.size(),
                     item.nodes.size() == 1 ? "" : "s", first_nodes(item), item.reason.empty() ? "" : ": ",
                     item.reason);
}

std::string describe(const std::vector<UnsupportedItem>& items) {
  std::string text = "the model needs what Tilewright does not support:";
  for (const UnsupportedItem& item : items) text += describe(item);
  return text;
}

}  // namespace

UnsupportedModel::UnsupportedModel(std::vector<UnsupportedItem> items, std::vector<std::string> bindable)
    : Unsupported(describe(items)), items_(std::move(items)), bindable_(std::move(bindable)) {
  std::ranges::sort(bindable_);
  bindable_.erase(std::unique(bindable_.begin(), bindable_.end()), bindable_.end());
}

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
