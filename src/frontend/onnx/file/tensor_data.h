// TensorProto -> type and bytes: raw data, typed fields and external files, all checked against the shape first.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

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

/// Reads the parts of a model that are in files of their own, below one folder.
class ExternalData {
 public:
  /// `base_directory`: the model's folder; empty: the model may not refer to files. `link_folders`: see
  /// ImportOptions.
  explicit ExternalData(std::string base_directory, std::vector<std::string> link_folders = {})
      : base_(std::move(base_directory)), link_folders_(std::move(link_folders)) {}

  /// The `bytes` bytes of `tensor`; one range of a file is read once as long as somebody has it. Refuses absolute
  /// paths, "..", whatever is found outside the folder, files that have other names, anything but regular files, and
  /// offsets or lengths beyond the file: all before allocating. Throws UserError, and ResourceError for more bytes than
  /// there is memory.
  graph::Bytes read(const onnx::TensorProto& tensor, int64_t bytes) const;

  /// The files that read() has read from, as absolute paths; links in them are not resolved.
  const std::set<std::string>& read_files() const { return files_; }

 private:
  struct Opened {
    int fd;
    std::string path;  // absolute, as the model names it
  };
  void check_location(const std::string& tensor, const std::string& location) const;
  Opened open(const std::string& tensor, const std::string& location) const;
  bool is_in_link_folder(const std::filesystem::path& file) const;

  std::string base_;
  std::vector<std::string> link_folders_;
  mutable std::set<std::string> files_;
  // By device, inode, offset and size.
  mutable std::map<std::tuple<uint64_t, uint64_t, int64_t, int64_t>, std::weak_ptr<const std::span<const std::byte>>>
      ranges_;
};

/// The tensor's type; UserError for bad dimensions or more than kMaxElements, Unsupported for its element type.
TensorType tensor_type(const onnx::TensorProto& tensor);
/// Whether there are tensors of its element type here.
bool is_supported(const onnx::TensorProto& tensor);

/// The tensor's type and data. Throws UserError when data and shape disagree.
TensorData read_tensor(const onnx::TensorProto& tensor, const ExternalData& files);

/// UserError unless every extent is non-negative, the rank at most kMaxRank and the product at most kMaxElements.
void check_extents(const Shape& shape, std::string_view what);

}  // namespace tw::frontend
