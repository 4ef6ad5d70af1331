// Conversions where reading a layout in place would be slower than one copy: an identity transpose becomes a group of
// its own, a plain copy between two layouts.
//
// 1. A reshape that mixes channels with other dims of a value stored channels last would divide for every element;
// after
//    a conversion to row-major it is a view.
// 2. A convolution whose result leaves the model would compute in the model's row-major order, with vectors along short
//    image rows; it writes channels last and the result is converted.
#include <algorithm>
#include <numeric>

#include "transform/passes.h"
#include "transform/roles.h"
#include "transform/storage_order.h"

namespace tw::transform {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

class Converter {
 public:
  Converter(const Graph& graph, const graph::OpTable& ops) : graph_(graph), ops_(ops) {}

  Graph run() {
    const std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (const Node& node : nodes) {
      Node copy = node;
      if (needs_row_major(copy)) copy.inputs[0] = convert_input(copy.inputs[0]);
      const bool leaves = leaves_spatial(copy);
      const ValueId out = copy.outputs[0];
      if (leaves) copy.outputs[0] = channels_last_copy(out);
      graph_.nodes.push_back(copy);
      if (leaves) add_copy(copy.outputs[0], out);
    }
    return graph::compact(graph_);
  }

 private:
  const graph::Value& value(ValueId id) const { return graph_.value(id); }

  bool needs_row_major(const Node& node) const {
    if (node.op != "reshape" || is_view(graph_, node)) return false;
    const graph::Value& in = value(node.inputs[0]);
    return !in.layout.is_identity() && value(node.outputs[0]).layout.is_identity();
  }

  ValueId convert_input(ValueId id) {
    const graph::Value source = value(id);
    const ValueId rows = graph_.add_value(source.name + "_rows", source.type);
    add_copy(id, rows);
    return rows;
  }

  // A convolution itself, not one with an epilogue: fusion would pull the epilogue's order into the convolution.
  bool leaves_spatial(const Node& node) const {
    if (node.outputs.size() != 1 || !is_spatial(node) || role_of(ops_, node) != Role::kContraction) return false;
    const graph::Value& out = value(node.outputs[0]);
    const Layout last = channels_last(static_cast<int>(out.type.shape.size()));
    return graph_.is_output(node.outputs[0]) && !same_bytes(out.type.shape, last, Layout());
  }

  ValueId channels_last_copy(ValueId id) {
    const graph::Value out = value(id);
    const ValueId last = graph_.add_value(out.name + "_channels_last", out.type);
    graph_.values[last].layout = channels_last(static_cast<int>(out.type.shape.size()));
    return last;
  }

  void add_copy(ValueId from, ValueId to) {
    std::vector<int64_t> order(value(from).type.shape.size());
    std::iota(order.begin(), order.end(), 0);
    Node node;
    node.op = "transpose";
    node.name = value(to).name + "_layout";
    node.attrs["perm"] = order;
    node.inputs = {from};
    node.outputs = {to};
    graph_.nodes.push_back(std::move(node));
  }

  Graph graph_;
  const graph::OpTable& ops_;
};

}  // namespace

graph::Graph convert_layouts(const graph::Graph& graph, const TransformContext& context) {
  return Converter(graph, context.ops).run();
}

}  // namespace tw::transform
