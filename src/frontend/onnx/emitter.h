// Appends graph operators for one ONNX node: the names and attributes of the OpTable's operators are defined here only.
//
// All functions return value ids, name what they make after the ONNX node, and leave out operators that do nothing
// (a reshape to the same shape, a cast to the same type). They throw what GraphBuilder::append throws.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "frontend/onnx/graph_builder.h"

namespace tw::frontend {

enum class KeepDims : uint8_t { kNo, kYes };

class Emitter {
 public:
  using Id = graph::ValueId;
  using Ids = std::vector<graph::ValueId>;

  Emitter(GraphBuilder& builder, std::string name) : builder_(builder), name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  // By value: what is appended moves the graph's values.
  TensorType type(Id id) const { return builder_.type(id); }
  Shape shape(Id id) const { return builder_.type(id).shape; }
  int64_t rank(Id id) const { return std::ssize(builder_.type(id).shape); }
  DataType data_type(Id id) const { return builder_.type(id).type; }

  /// One application of the OpTable's operator `op`: all outputs, or the first.
  Ids apply(std::string_view op, Ids inputs, graph::Attrs attrs = {});
  Id op(std::string_view op, Ids inputs, graph::Attrs attrs = {});

  // Constants.
  Id constant(const graph::RefTensor& tensor);
  Id scalar(double value, DataType type);           // of shape []
  Id int_list(const std::vector<int64_t>& values);  // i64[n]
  /// `value` (of shape []) at every element of `shape`.
  Id filled(double value, TensorType type);

  // Elementwise with broadcasting.
  Id add(Id a, Id b) { return op("add", {a, b}); }
  Id sub(Id a, Id b) { return op("sub", {a, b}); }
  Id mul(Id a, Id b) { return op("mul", {a, b}); }
  Id div(Id a, Id b) { return op("div", {a, b}); }
  /// A scalar of `like`'s type, to be its partner in one of these.
  Id number(Id like, double value) { return scalar(value, data_type(like)); }
  Id where(Id condition, Id a, Id b) { return op("where", {condition, a, b}); }
  Id cast(Id x, DataType type);
  Id copy(Id x);  // a value of its own with the same elements

  // Data movement.
  Id reshape(Id x, const Shape& shape);
  Id unsqueeze(Id x, int64_t axis);  // an extent of 1 before `axis`
  Id transpose(Id x, const std::vector<int64_t>& perm);
  Id expand(Id x, const Shape& shape);  // shape is the whole result's
  /// All parts at once, or of thousands block by block (graph/stacked_rows.h).
  Id concat_all(const Ids& parts, int64_t axis) { return op("concat", parts, {{"axis", axis}}); }
  Id concat(const Ids& parts, int64_t axis);
  /// Elements start, start + step, ... of each listed axis, `extents` many; starts within the tensor.
  struct Range {
    int64_t axis, start, extent, step;
  };
  Id slice(Id x, const std::vector<Range>& ranges);
  Id slice(Id x, int64_t axis, int64_t start, int64_t extent) { return slice(x, {{axis, start, extent, 1}}); }
  /// The elements of `x` along `axis`, one by one and without that axis.
  Ids rows(Id x, int64_t axis);
  /// pads: before every axis, then after every axis; negative ones cut. mode: "constant", "reflect", "edge", "wrap".
  Id pad(Id x, const std::vector<int64_t>& pads, const std::string& mode, graph::Attr value);
  Id gather(Id data, Id indices, int64_t axis);

  // Reductions: op is reduce_sum, reduce_mean, reduce_max, reduce_min or reduce_prod.
  Id reduce(std::string_view op, Id x, const std::vector<int64_t>& axes, KeepDims keep);
  Id softmax(Id x, int64_t axis);
  Id matmul(Id a, Id b) { return op("matmul", {a, b}); }

 private:
  GraphBuilder& builder_;
  std::string name_;
};

}  // namespace tw::frontend
