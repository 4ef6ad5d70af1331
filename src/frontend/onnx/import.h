// ONNX import: model bytes -> graph::Graph with static shapes. Public, with imported.h; no protobuf in them.
//
// Every dimension is bound at import (model, --shape, --dim), computed shapes are evaluated, local functions and
// constant control flow are inlined, and inputs that operators need as attributes come from constants (--const).
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "frontend/onnx/imported.h"
#include "graph/op.h"

namespace tw::frontend {

/// Imports the model file `path`; external data is read from files below the model's folder. Throws UsageError (the
/// file cannot be read), UserError (damaged, or contradicting itself or the options) or UnsupportedModel.
ImportResult import_onnx_file(const std::string& path, const graph::OpTable& ops, const ImportOptions& options);

/// The same for a model in memory; `base_directory` is where external data is looked for (empty: none is allowed).
ImportResult import_onnx_bytes(std::span<const std::byte> bytes, const std::string& base_directory,
                               const graph::OpTable& ops, const ImportOptions& options);

/// The initializers of the main graph of the model in `bytes`, whether it has their elements or not (skeletons).
std::map<std::string, TensorType> initializer_types(std::span<const std::byte> bytes);

/// All initializers of the main graph of the model file `path`. Throws what import_onnx_file throws.
Weights read_initializers(const std::string& path);

/// What a model file says of itself, without importing it.
struct ModelSummary {
  struct Value {
    std::string name;
    std::string type;  // "f32[batch,3,224,224]"; "a sequence" and the like for what is no dense tensor
    /// Of a dense tensor whose rank or some dimension the model leaves open.
    bool is_open = false;
  };
  std::vector<Value> inputs;  // those without an initializer
  std::vector<Value> outputs;
  std::map<std::string, int64_t> opsets;     // by domain, "" the default
  std::map<std::string, int64_t> operators;  // nodes of each operator in the main graph
  int64_t initializers = 0;
  int64_t ir_version = 0;
  std::string producer;
};
/// Throws what import_onnx_file throws of a file that is not a model.
ModelSummary summarize_onnx_file(const std::string& path);

/// A tensor of a serialised TensorProto (test data files). Throws UserError or Unsupported.
graph::RefTensor read_tensor_proto(std::span<const std::byte> bytes);

/// Of the ONNX model in `bytes`, whose weights may be missing: a JSON object with "producer_name", "producer_version",
/// "domain", "description", "graph_name", "graph_description" (texts), "version" (a number) and "custom_metadata_map"
/// (texts by name). Bytes that are not UTF-8 are replaced. Throws NotAModel.
std::string metadata_of(std::span<const std::byte> bytes);

}  // namespace tw::frontend
