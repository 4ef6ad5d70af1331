// A model file that can be changed: read, rewritten, imported, written. No protobuf in this header.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/tensor_type.h"
#include "frontend/onnx/imported.h"

namespace onnx {
class ModelProto;
}

namespace tw::frontend {

/// One change of a model's main graph. Which fields say more than the kind and the target, the kinds say.
struct Rewrite {
  enum class Kind : uint8_t {
    kActivation,  // `activation` of `source` (a value of `type`) computes the value `target`
    kExtent,      // axis `axis` of the initializer `target` has `extent` elements
    kGroup,       // the convolution that computes the value `target` has `extent` groups
    kPointwise,   // behind the activation that makes `target` of `source` stand a convolution with weights of `type`,
                  // whose window is one element, and the same activation once more
  };
  Kind kind = Kind::kActivation;
  std::string target;
  std::string source = {};
  std::string activation = {};  // operator of ops/unary.cpp
  int64_t axis = 0;
  int64_t extent = 0;
  bool is_read = false;  // kExtent: sums run over the axis, so that zeros in its new elements change no sum
  TensorType type = {};
  friend bool operator==(const Rewrite&, const Rewrite&) = default;
};

/// A value: what rewrites make is another model.
class EditableModel {
 public:
  /// `link_folders`: of ImportOptions. Throws what import_onnx_file throws of files.
  static EditableModel read(const std::string& path, std::vector<std::string> link_folders = {});

  /// The model with these changes. New filters are uniform in [-b, b), b = sqrt(6 / channels), as He et al. begin; new
  /// elements of an axis that sums run over are 0, those of other axes copies of elements that `seed` chooses. So a
  /// model with wider channels computes what it computed. UserError names the target that the main graph does not have.
  EditableModel with(std::span<const Rewrite> rewrites, uint64_t seed) const;

  /// The same as import_onnx_file.
  ImportResult import(const graph::OpTable& ops, const ImportOptions& options) const;

  /// The model with an initializer for each parameter that training takes (equal_parameters.cpp).
  EditableModel with_own_parameters() const;

  /// The opset of the default domain.
  int64_t opset() const;
  bool has_initializer(const std::string& name) const;
  /// Of the main graph: those of element types that are supported.
  std::map<std::string, TensorType> initializers() const;
  /// The model with these elements in its initializers, whose names and types they have.
  EditableModel with_weights(const Weights& weights) const;

  /// The model as a file, external data in it. ResourceError where it is larger than protobuf's messages may be.
  std::string bytes() const;

 private:
  EditableModel(std::shared_ptr<const onnx::ModelProto> model, std::string folder,
                std::vector<std::string> link_folders);

  std::shared_ptr<const onnx::ModelProto> model_;
  std::string folder_;  // where external data lies
  std::vector<std::string> link_folders_;
};

}  // namespace tw::frontend
