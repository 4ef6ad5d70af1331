#include <fmt/ranges.h>

#include <algorithm>

#include "graph/error_output.h"
#include "transform/editor.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

constexpr size_t kMaxNamed = 3;
constexpr int64_t kTooManyRows = 2;  // runtime/device.h: KernelError, of which an index out of range is 1

// The index input of an operator and the extents that its last axis addresses (one for all when there is one).
struct IndexUse {
  ValueId indices;
  Shape extents;
  int64_t low = -1;          // times an extent: the least index
  bool counts_rows = false;  // places of rows whose number comes out of the run, of which there is room for the extent
  friend bool operator==(const IndexUse&, const IndexUse&) = default;
};

Shape extent_of_axis(const graph::Node& node, const Shape& shape) {
  const int64_t axis = node.int_attr_or("axis", 0);
  return {shape.at(static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis))};
}

Shape extents_of_tuple(const graph::Node& node, const Shape& shape, const Shape& indices) {
  const auto first = shape.begin() + node.int_attr_or("batch_dims", 0);
  return {first, first + indices.back()};
}

// Operators that read or write at computed places. Those that read have the data as input 0, the indices as input 1.
std::optional<IndexUse> index_use(const graph::Graph& graph, const graph::Node& node) {
  if (node.op == "update_slice") {
    const Shape &x = graph.value(node.inputs[0]).type.shape, &update = graph.value(node.inputs[1]).type.shape;
    const int64_t places = extent_of_axis(node, x)[0] - extent_of_axis(node, update)[0] + 1;
    if (graph.value(node.inputs[1]).type.elements() == 0) return std::nullopt;
    return IndexUse{node.inputs[2], {places}, 0};
  }
  const bool by_axis = node.op == "gather" || node.op == "gather_elements";
  const bool by_tuple = node.op == "gather_nd", is_scatter = node.op.starts_with("scatter_") && node.has_attr("extent");
  if (!by_axis && !by_tuple && !is_scatter) return std::nullopt;
  const Shape& data = graph.value(node.inputs[0]).type.shape;
  const ValueId indices = node.inputs[1];
  if (graph.value(indices).type.elements() == 0) return std::nullopt;
  if (is_scatter) return IndexUse{indices, {node.int_attr("extent")}, -1, node.has_attr("counts_rows")};
  if (by_axis) return IndexUse{indices, extent_of_axis(node, data)};
  return IndexUse{indices, extents_of_tuple(node, data, graph.value(indices).type.shape)};
}

class Checker {
 public:
  Checker(const graph::Graph& graph, const TransformContext& context) : context_(context), out_(graph) {}

  graph::Graph run() {
    const size_t count = out_.nodes.size();
    for (size_t n = 0; n < count; ++n) {
      const std::optional<IndexUse> use = index_use(out_, out_.nodes[n]);
      if (!use) continue;
      if (out_.value(use->indices).is_constant()) {
        check_constant(*use, out_.nodes[n]);
      } else {
        add_check(*use, out_.nodes[n].name);
      }
    }
    if (error_ == graph::kAbsent) return std::move(out_);
    out_.nodes.back().name = name_of_checks();
    if (out_.find_value(graph::kErrorOutput) != graph::kAbsent)
      throw UserError("the model has a value '{}': this name is reserved", graph::kErrorOutput);
    out_.values[error_].name = graph::kErrorOutput;
    out_.outputs.push_back(error_);
    return std::move(out_);
  }

 private:
  ValueId add(const std::string& op, std::vector<ValueId> inputs, graph::Attrs attrs = {}) {
    return graph::append_node(out_, context_.ops,
                              {.op = op, .name = name_, .attrs = std::move(attrs), .inputs = std::move(inputs)})[0];
  }

  // The bounds, `sign` times each extent plus `offset`, as a constant that broadcasts against the indices.
  ValueId bounds(const Shape& extents, DataType type, int64_t sign) {
    graph::RefTensor tensor =
        graph::RefTensor::zeros({type, extents.size() == 1 ? Shape{} : Shape{std::ssize(extents)}});
    for (size_t i = 0; i < extents.size(); ++i) tensor.ints[i] = sign * extents[i];
    return out_.add_constant("bound", tensor.type, bytes_of(tensor));
  }

  ValueId number(int64_t value) {
    graph::RefTensor tensor = graph::RefTensor::zeros({DataType::i32(), {1}});
    tensor.ints[0] = value;
    return out_.add_constant("number", tensor.type, bytes_of(tensor));
  }

  void check_constant(const IndexUse& use, const graph::Node& node) const {
    const graph::Value& value = out_.value(use.indices);
    const graph::RefTensor indices = elements_of(value);
    for (size_t i = 0; i < indices.ints.size(); ++i) {
      const int64_t extent = use.extents[i % use.extents.size()];
      if (indices.ints[i] < use.low * extent || indices.ints[i] >= extent) {
        throw UserError("node '{}' ({}): index {} of '{}' is outside of an axis of {} elements", node.name, node.op,
                        indices.ints[i], value.name, extent);
      }
    }
  }

  // error = max(error, max over all indices of (index < -extent or index >= extent))
  // Once for all that use the same indices alike, as all layers do that append to a cache.
  void add_check(const IndexUse& use, const std::string& node) {
    checked_.push_back(node);
    if (std::ranges::find(known_, use) != known_.end()) return;
    known_.push_back(use);
    name_ = node + " (index check)";
    const DataType type = out_.value(use.indices).type.type;
    const ValueId low = add("less", {use.indices, bounds(use.extents, type, use.low)});
    const ValueId high = add("greater_equal", {use.indices, bounds(use.extents, type, 1)});
    const ValueId outside = add("cast", {add("or", {low, high})}, {{"to", std::string("i32")}});
    ValueId any = add("reduce_max", {outside}, {{"keepdims", int64_t{1}}});  // one row, for threads to share
    if (use.counts_rows) any = add("mul", {any, number(kTooManyRows)});
    error_ = error_ == graph::kAbsent ? any : add("max", {error_, any});
  }

  // Of the last step, which says that some index is outside.
  std::string name_of_checks() const {
    const size_t named = std::min<size_t>(checked_.size(), kMaxNamed);
    return fmt::format("{}{} (index check)", fmt::join(checked_.begin(), checked_.begin() + named, ", "),
                       named < checked_.size() ? ", .." : "");
  }

  const TransformContext& context_;
  std::vector<std::string> checked_;  // nodes
  std::vector<IndexUse> known_;       // what has a check
  graph::Graph out_;
  ValueId error_ = graph::kAbsent;
  std::string name_;  // of the nodes that are being added
};

}  // namespace

graph::Graph check_indices(const graph::Graph& graph, const TransformContext& context) {
  return Checker(graph, context).run();
}

}  // namespace tw::transform
