// Entry points: bytes to protobuf with its limits, and what is not a model at all.
#include "frontend/onnx/import.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <onnx-ml.pb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "frontend/onnx/converters.h"
#include "frontend/onnx/importer.h"
#include "frontend/onnx/limits.h"

namespace tw::frontend {
namespace {

namespace io = google::protobuf::io;

template <typename Message>
bool parse(io::ZeroCopyInputStream& stream, Message& message) {
  io::CodedInputStream coded(&stream);
  coded.SetTotalBytesLimit(static_cast<int>(kMaxFileBytes));
  return message.ParseFromCodedStream(&coded) && coded.ConsumedEntireMessage();
}

void check_model(const onnx::ModelProto& model, const std::string& what) {
  if (model.ir_version() <= 0 || !model.has_graph()) throw UserError(fmt::format("{}: not an ONNX model or truncated", what));
}

[[noreturn]] void fail_file(const std::string& path) {
  throw UserError(fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
}

onnx::ModelProto read_model(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail_file(path);
  io::FileInputStream stream(fd);
  stream.SetCloseOnDelete(true);
  struct stat info = {};
  if (::fstat(fd, &info) != 0) fail_file(path);
  if (!S_ISREG(info.st_mode)) throw UserError(fmt::format("cannot read '{}': not a regular file", path));
  if (info.st_size > kMaxFileBytes) {
    throw UserError(fmt::format("'{}' has {} bytes: a model file has at most {}; store its weights as external data", path,
                                static_cast<int64_t>(info.st_size), kMaxFileBytes));
  }
  const google::protobuf::LogSilencer silent;
  onnx::ModelProto model;
  if (!parse(stream, model)) throw UserError(fmt::format("'{}': not an ONNX model or truncated", path));
  check_model(model, fmt::format("'{}'", path));
  return model;
}

std::string describe(const UnsupportedItem& item) {
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(item.nodes.size(), kMaxListedNodes); ++i) names.push_back(fmt::format("'{}'", item.nodes[i]));
  if (item.nodes.size() > kMaxListedNodes) names.push_back("...");
  const std::string domain = item.domain.empty() ? "" : fmt::format("domain '{}', ", item.domain);
  const std::string version = item.opset > 0 ? fmt::format("opset {}", item.opset) : "no opset_import";
  return fmt::format("\n  {} ({}{}), {} node{}: {}{}{}", item.op, domain, version, item.nodes.size(), item.nodes.size() == 1 ? "" : "s",
                     fmt::join(names, ", "), item.reason.empty() ? "" : ": ", item.reason);
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

ImportResult import_onnx_bytes(std::span<const std::byte> bytes, const std::string& base_directory, const graph::OpTable& ops,
                               const ImportOptions& options) {
  const google::protobuf::LogSilencer silent;
  onnx::ModelProto model;
  if (static_cast<int64_t>(bytes.size()) > kMaxFileBytes) throw UserError("a model in memory has at most 2 GiB");
  io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  if (!parse(stream, model)) throw UserError("the bytes are not an ONNX model or truncated");
  check_model(model, "the bytes");
  return Importer(model, base_directory, ops, options).run();
}

graph::RefTensor read_tensor_proto(std::span<const std::byte> bytes) {
  const google::protobuf::LogSilencer silent;
  onnx::TensorProto tensor;
  io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  if (!parse(stream, tensor)) throw UserError("the bytes are not a tensor or truncated");
  const TensorData data = read_tensor(tensor, ExternalData(""));
  return graph::RefTensor::from_bytes(data.type, *data.bytes);
}

}  // namespace tw::frontend
