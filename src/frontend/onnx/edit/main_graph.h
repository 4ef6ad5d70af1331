// The main graph of a model message while it is edited: its nodes in order, its initializers by name.
#pragma once
#include <onnx-ml.pb.h>

#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/tensor_type.h"

namespace tw::frontend {

class MainGraph {
 public:
  /// Takes the nodes out of `graph`; finish() puts them back.
  explicit MainGraph(onnx::GraphProto& graph);

  /// The number of the node that computes the value. UserError: none does.
  size_t writer(const std::string& value) const;
  onnx::NodeProto& node(size_t n) { return nodes_.at(n); }
  onnx::TensorProto& initializer(const std::string& name);

  /// The nodes that make `value` of `source`, in order; UserError when another value than an initializer is needed,
  /// too.
  std::vector<size_t> between(const std::string& source, const std::string& value) const;

  /// Has the writer of `value` write another name, which is returned: what is inserted writes `value` now, for all that
  /// reads it.
  std::string free_name_of(const std::string& value);
  void insert_behind(size_t n, const std::vector<onnx::NodeProto>& nodes);

  std::string unique(const std::string& wanted);
  /// Adds an initializer under a free name like `wanted`, which is returned.
  std::string add_initializer(const std::string& wanted, const TensorType& type, std::span<const std::byte> elements);

  /// Puts the nodes that something needs back. What the file said of values between is no longer so.
  void finish();

 private:
  onnx::GraphProto& graph_;
  std::vector<onnx::NodeProto> nodes_;
  std::unordered_set<std::string> names_;
};

}  // namespace tw::frontend
