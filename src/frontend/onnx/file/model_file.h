// Model files and bytes to protobuf messages.
#pragma once
#include <onnx-ml.pb.h>

#include <cstddef>
#include <span>
#include <string>

namespace tw::frontend {

/// The model of a file or of bytes. Throws UsageError when the file cannot be read, UserError when it is larger than
/// protobuf can hold, and NotAModel.
onnx::ModelProto read_model(const std::string& path);
onnx::ModelProto read_model(std::span<const std::byte> bytes);

/// A serialised TensorProto. Throws UserError.
onnx::TensorProto read_tensor_message(std::span<const std::byte> bytes);

}  // namespace tw::frontend
