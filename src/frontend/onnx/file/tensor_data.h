// TensorProto -> type and bytes: raw data, typed fields and external files, all checked against the shape first.
#pragma once
#include <set>
#include <string>

#include "core/tensor_type.h"
#include "graph/graph.h"

namespace onnx {
class TensorProto;
}

namespace tw::frontend {

struct TensorData {
  TensorType type;
  graph::Bytes bytes;
};

/// Reads the parts of a model that lie in files of their own, below one folder.
class ExternalData {
 public:
  /// `base_directory`: the model's folder; empty: the model may not refer to files.
  explicit ExternalData(std::string base_directory) : base_(std::move(base_directory)) {}

  /// The `bytes` bytes of `tensor`. Refuses absolute paths, "..", whatever resolves to outside the folder, anything but
  /// regular files, and offsets or lengths beyond the file: all before allocating. Throws UserError.
  graph::Bytes read(const onnx::TensorProto& tensor, int64_t bytes) const;

  /// The files that read() has read from, as absolute paths.
  const std::set<std::string>& read_files() const { return read_; }

 private:
  std::string resolve(const std::string& tensor, const std::string& location) const;

  std::string base_;
  mutable std::set<std::string> read_;
};

/// The tensor's type; UserError for bad dimensions or more than kMaxElements, Unsupported for its element type.
TensorType tensor_type(const onnx::TensorProto& tensor);

/// The tensor's type and data. Throws UserError when data and shape disagree.
TensorData read_tensor(const onnx::TensorProto& tensor, const ExternalData& files);

/// UserError unless every extent is non-negative, the rank at most kMaxRank and the product at most kMaxElements.
void check_extents(const Shape& shape, std::string_view what);

}  // namespace tw::frontend
