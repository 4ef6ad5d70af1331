// What a converter sees of one ONNX node: inputs, attributes, values known at import, and the emitter for graph nodes.
#pragma once
#include <onnx-ml.pb.h>

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/onnx/emitter.h"
#include "frontend/onnx/model_import.h"
#include "frontend/onnx/scope.h"
#include "support/error.h"
#include "support/join.h"

namespace tw::frontend {

/// A value that must be known at import depends on model inputs; `bindable` names them.
class ConstantNeeded : public Unsupported {
 public:
  ConstantNeeded(const std::string& message, std::vector<std::string> bindable)
      : Unsupported(message), bindable_(std::move(bindable)) {}
  const std::vector<std::string>& bindable() const { return bindable_; }

 private:
  std::vector<std::string> bindable_;
};

/// A body's result could not be imported; the reason is already recorded.
struct BodyUnsupported {};

class NodeContext {
 public:
  NodeContext(ModelImport& importer, const onnx::NodeProto& node, NameScope& scope, int64_t opset);

  const onnx::NodeProto& node() const { return node_; }
  const std::string& op() const { return node_.op_type(); }
  int64_t opset() const { return opset_; }
  const std::string& name() const { return name_; }  // of the node, or made from its first output
  ModelImport& importer() { return importer_; }
  NameScope& scope() { return scope_; }
  Emitter& emit() { return emitter_; }

  // Inputs. `has` is false for trailing and for empty optional inputs; `input` throws UserError for those.
  size_t num_inputs() const { return inputs_.size(); }
  bool has(size_t k) const { return k < inputs_.size() && inputs_[k] != graph::kAbsent; }
  graph::ValueId input(size_t k) const;
  graph::ValueId input_or_absent(size_t k) const { return has(k) ? inputs_[k] : graph::kAbsent; }
  /// All inputs; UserError when there is none or one is absent.
  std::vector<graph::ValueId> all_inputs() const;
  // By value: what an emitter appends moves the graph's values.
  TensorType type(size_t k) const;
  Shape shape(size_t k) const { return type(k).shape; }
  int64_t rank(size_t k) const { return static_cast<int64_t>(shape(k).size()); }
  void set_inputs(std::vector<graph::ValueId> inputs) { inputs_ = std::move(inputs); }

  // Outputs.
  size_t num_outputs() const { return node_.output_size(); }
  bool wants(size_t k) const { return k < num_outputs() && !node_.output(static_cast<int>(k)).empty(); }

  // Attributes; UserError when one is of another kind than asked for. The first three have no default.
  bool has_attr(const std::string& key) const { return find_attr(key) != nullptr; }
  int64_t int_attr(const std::string& key) const;
  std::vector<int64_t> ints_attr(const std::string& key) const;
  std::string string_attr(const std::string& key) const;
  int64_t int_or(const std::string& key, int64_t fallback) const { return has_attr(key) ? int_attr(key) : fallback; }
  double float_or(const std::string& key, double fallback) const;
  std::string string_or(const std::string& key, const std::string& fallback) const {
    return has_attr(key) ? string_attr(key) : fallback;
  }
  std::vector<int64_t> ints_or(const std::string& key, const std::vector<int64_t>& fallback) const {
    return has_attr(key) ? ints_attr(key) : fallback;
  }
  std::vector<std::string> strings_or(const std::string& key, const std::vector<std::string>& fallback) const;
  std::vector<double> floats_or(const std::string& key, const std::vector<double>& fallback) const;
  const onnx::TensorProto* tensor_attr(const std::string& key) const;  // null when not given
  const onnx::GraphProto& graph_attr(const std::string& key) const;
  /// The attribute has no effect on results here.
  void ignore_attr(const std::string& key) const { used_.insert(key); }
  /// Attributes that no accessor was asked for.
  std::vector<std::string> unused_attrs() const;
  /// Attribute `key` as a dimension of `rank`, 0 <= result < rank (or <= rank when `past_end`). UserError otherwise.
  int64_t axis_or(const std::string& key, int64_t fallback, int64_t rank) const;
  /// Attribute `key`, which is one of `choices`, the first of them when it is not given. UserError otherwise.
  std::string choice(const std::string& key, std::initializer_list<std::string_view> choices) const;
  /// Attribute `key` as an element type; `fallback` when it is not given or 0.
  DataType type_or(const std::string& key, DataType fallback) const;

  // Values known at import. ConstantNeeded names this input by its `role` ("shape", "axes") and says what to bind.
  bool is_constant(size_t k) const;
  graph::RefTensor constant(size_t k, std::string_view role) const;
  std::vector<int64_t> const_ints(size_t k, std::string_view role) const;
  std::vector<double> const_floats(size_t k, std::string_view role) const;
  int64_t const_int(size_t k, std::string_view role) const;
  double const_float(size_t k, std::string_view role) const;

 private:
  const onnx::AttributeProto* find_attr(const std::string& key) const;
  const onnx::AttributeProto* find_attr(const std::string& key, onnx::AttributeProto::AttributeType kind) const;
  const onnx::AttributeProto& required_attr(const std::string& key, onnx::AttributeProto::AttributeType kind) const;

  ModelImport& importer_;
  const onnx::NodeProto& node_;
  NameScope& scope_;
  int64_t opset_;
  std::string name_;
  std::vector<graph::ValueId> inputs_;
  Emitter emitter_;
  mutable std::set<std::string> used_;
};

/// The shape of `rank` that has `extent` at `axis` and 1 elsewhere.
Shape along_axis(int64_t rank, int64_t axis, int64_t extent);
/// `axis` in [-rank, rank) as 0 <= result < rank; UserError otherwise.
int64_t normalize_axis(int64_t axis, int64_t rank, std::string_view what = "axis");
/// The same for a list, without repeats (UserError), sorted.
std::vector<int64_t> normalize_axes(std::vector<int64_t> axes, int64_t rank);

}  // namespace tw::frontend
