// Model files and bytes to protobuf, with protobuf's limits, and what is not a model at all.
#include "frontend/onnx/file/model_file.h"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "frontend/onnx/imported.h"
#include "frontend/onnx/limits.h"
#include "support/memory.h"

namespace tw::frontend {
namespace {

namespace io = google::protobuf::io;

template <typename Message>
bool parse(io::ZeroCopyInputStream& stream, Message& message) {
  io::CodedInputStream coded(&stream);
  coded.SetTotalBytesLimit(static_cast<int>(kMaxFileBytes));
  coded.SetRecursionLimit(kMaxMessageDepth);
  return message.ParseFromCodedStream(&coded) && coded.ConsumedEntireMessage();
}

// Names are words of lines in plans and messages: control characters become '_'.
void clean(std::string& name) {
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::iscntrl(c) != 0; }, '_');
}

void clean_names(onnx::GraphProto& graph);

void clean_names(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes) {
  for (onnx::NodeProto& node : nodes) {
    clean(*node.mutable_name());
    std::ranges::for_each(*node.mutable_input(), clean);
    std::ranges::for_each(*node.mutable_output(), clean);
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) clean_names(*attribute.mutable_g());
    }
  }
}

void clean_names(onnx::GraphProto& graph) {
  clean_names(*graph.mutable_node());
  for (onnx::TensorProto& tensor : *graph.mutable_initializer()) clean(*tensor.mutable_name());
  for (onnx::SparseTensorProto& tensor : *graph.mutable_sparse_initializer())
    clean(*tensor.mutable_values()->mutable_name());
  for (auto* values : {graph.mutable_input(), graph.mutable_output(), graph.mutable_value_info()}) {
    for (onnx::ValueInfoProto& value : *values) clean(*value.mutable_name());
  }
}

void check_model(onnx::ModelProto& model, const std::string& what) {
  if (model.ir_version() <= 0 || !model.has_graph()) throw NotAModel(what, "it has no graph");
  clean_names(*model.mutable_graph());
  for (onnx::FunctionProto& function : *model.mutable_functions()) {
    clean_names(*function.mutable_node());
    std::ranges::for_each(*function.mutable_input(), clean);
    std::ranges::for_each(*function.mutable_output(), clean);
  }
}

[[noreturn]] void fail_file(const std::string& path) {
  throw UsageError("cannot read '{}': {}", path, std::strerror(errno));
}

// "it begins with 'root:x:0'", "it begins with the bytes 7f 45 4c 46".
std::string beginning(std::span<const char> bytes) {
  constexpr size_t kShown = 8;
  if (bytes.empty()) return "it is empty";
  const auto first = bytes.first(std::min(bytes.size(), kShown));
  const bool is_text = std::ranges::all_of(first, [](unsigned char c) { return std::isprint(c) != 0; });
  if (is_text) return fmt::format("it begins with '{}'", std::string_view(first.data(), first.size()));
  std::string text = "it begins with the bytes";
  for (const unsigned char c : first) text += fmt::format(" {:02x}", c);
  return text;
}

std::string beginning(int file) {
  std::array<char, 64> bytes{};
  const ssize_t got = ::pread(file, bytes.data(), bytes.size(), 0);
  return beginning({bytes.data(), static_cast<size_t>(std::max<ssize_t>(got, 0))});
}

}  // namespace

onnx::ModelProto read_model(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail_file(path);
  io::FileInputStream stream(fd);
  stream.SetCloseOnDelete(true);
  struct stat info = {};
  if (::fstat(fd, &info) != 0) fail_file(path);
  if (!S_ISREG(info.st_mode)) throw UsageError("cannot read '{}': not a regular file", path);
  if (info.st_size > kMaxFileBytes) {
    throw UserError("'{}' has {} bytes: a model file has at most {}; store its weights as external data", path,
                    static_cast<int64_t>(info.st_size), kMaxFileBytes);
  }
  require_memory(info.st_size, fmt::format("reading '{}'", path));
  const google::protobuf::LogSilencer silent;
  onnx::ModelProto model;
  if (!parse(stream, model)) throw NotAModel(fmt::format("'{}' is", path), beginning(fd));
  check_model(model, fmt::format("'{}' is", path));
  return model;
}

onnx::ModelProto read_model(std::span<const std::byte> bytes) {
  const google::protobuf::LogSilencer silent;
  if (static_cast<int64_t>(bytes.size()) > kMaxFileBytes) throw UserError("a model in memory has at most 2 GiB");
  onnx::ModelProto model;
  io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  if (!parse(stream, model)) {
    const std::span text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    throw NotAModel("the bytes are", beginning(text));
  }
  check_model(model, "the bytes are");
  return model;
}

onnx::TensorProto read_tensor_message(std::span<const std::byte> bytes) {
  const google::protobuf::LogSilencer silent;
  if (static_cast<int64_t>(bytes.size()) > kMaxFileBytes) throw UserError("a tensor in memory has at most 2 GiB");
  onnx::TensorProto tensor;
  io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  if (!parse(stream, tensor)) throw UserError("the bytes are not a tensor or truncated");
  return tensor;
}

}  // namespace tw::frontend
