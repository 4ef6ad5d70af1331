// ONNX import: model bytes -> graph::Graph with static shapes. The only public header of this folder; no protobuf in
// it.
//
// Every dimension is bound at import (model, --shape, --dim), computed shapes are evaluated, local functions and
// constant control flow are inlined, and inputs that operators need as attributes come from constants (--const).
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op.h"
#include "support/error.h"

namespace tw::frontend {

/// The newest opset of the default domain whose operator definitions were read when the table was written.
constexpr int kNewestOpset = 27;
constexpr int kOldestOpset = 7;

struct ImportOptions {
  std::map<std::string, Shape> shapes;                // --shape NAME=1x3x224x224: an input's whole shape
  std::map<std::string, int64_t> dims;                // --dim NAME=8: a symbolic dimension, wherever it stands
  std::map<std::string, graph::RefTensor> constants;  // --const NAME=@x.npy: an input that becomes a constant
};

struct ImportResult {
  graph::Graph graph;  // compact; inputs and outputs in the model's order and under its names
  std::vector<std::string> warnings;
  int64_t opset = 0;                        // of the default domain
  int64_t ir_version = 0;                   // of the model file
  std::string producer;                     // "name version" of the program that wrote the model; may be empty
  std::vector<std::string> external_files;  // absolute paths of the files of external data that were read
};

/// What kept one kind of operator (or one input) from being imported.
struct UnsupportedItem {
  std::string op;      // "Conv"; empty: an input of a type that is not supported, see `reason`
  std::string domain;  // empty for the default domain
  int64_t opset = 0;
  std::string reason;              // empty: no converter for this operator at this opset
  std::vector<std::string> nodes;  // names of all nodes concerned
};

/// All reasons for which a model is not supported, at once; what() has a line for each. `bindable` are the model inputs
/// that would have to be bound with --const.
class UnsupportedModel : public Unsupported {
 public:
  explicit UnsupportedModel(std::vector<UnsupportedItem> items, std::vector<std::string> bindable);
  const std::vector<UnsupportedItem>& items() const { return items_; }
  const std::vector<std::string>& bindable() const { return bindable_; }

 private:
  std::vector<UnsupportedItem> items_;
  std::vector<std::string> bindable_;
};

/// Imports the model file `path`; external data is read from files below the model's folder. Throws UserError (file
/// missing, damaged or contradicting itself or the options) or UnsupportedModel.
ImportResult import_onnx_file(const std::string& path, const graph::OpTable& ops, const ImportOptions& options);

/// The same for a model in memory; `base_directory` is where external data is looked for (empty: none is allowed).
ImportResult import_onnx_bytes(std::span<const std::byte> bytes, const std::string& base_directory,
                               const graph::OpTable& ops, const ImportOptions& options);

/// What a model file says of itself, without importing it.
struct ModelSummary {
  struct Value {
    std::string name;
    std::string type;  // "f32[batch, 3, 224, 224]"; "a sequence" and the like for what is no dense tensor
  };
  std::vector<Value> inputs;  // those without an initializer
  std::vector<Value> outputs;
  std::map<std::string, int64_t> opsets;     // by domain, "" the default
  std::map<std::string, int64_t> operators;  // nodes of each operator in the main graph
  int64_t initializers = 0;
  int64_t ir_version = 0;
  std::string producer;
};
/// Throws UserError when the file cannot be read or is no ONNX model.
ModelSummary summarize_onnx_file(const std::string& path);

/// A tensor of a serialised TensorProto (test data files). Throws UserError or Unsupported.
graph::RefTensor read_tensor_proto(std::span<const std::byte> bytes);

}  // namespace tw::frontend
