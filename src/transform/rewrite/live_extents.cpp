#include "transform/rewrite/live_extents.h"

#include <algorithm>

#include "support/error.h"
#include "support/join.h"
#include "transform/rewrite/row_masks.h"

namespace tw::transform {
namespace {

class ExtentServer {
 public:
  ExtentServer(const Graph& graph, const graph::OpTable& ops, std::span<const LiveExtent> extents,
               const DependentDims& dims)
      : in_(graph), ops_(ops), dims_(dims), out_(graph), masks_(out_, ops, [this](int e) {
          return lengths_[static_cast<size_t>(e)];
        }) {
    out_.nodes.clear();
    for (const LiveExtent& extent : extents) {
      if (graph.find_value(input_of(extent)) != kAbsent)
        throw Unsupported("a value of the model is called '{}', which is the name of the extent '{}'", input_of(extent),
                          extent.name);
      lengths_.push_back(out_.add_input(input_of(extent), {DataType::i64(), {1}}));
    }
  }

  LiveGraph run() {
    for (const auto& [id, rows] : dims_) {
      if (in_.producer(id) < 0) rows_[id] = rows;
    }
    for (const Node& node : in_.nodes) add(node);
    const std::vector<RowsOfValue> rows = mapped(in_.outputs, [&](ValueId id) { return rows_of(id); });
    LiveGraph out{graph::compact(out_), {}};
    for (size_t o = 0; o < rows.size(); ++o) {
      if (!rows[o].empty()) out.outputs[out.graph.outputs[o]] = rows[o];
    }
    return out;
  }

 private:
  RowsOfValue rows_of(ValueId id) const {
    const auto found = rows_.find(id);
    return found == rows_.end() ? RowsOfValue() : found->second;
  }

  void add(const Node& node) {
    const auto inputs = mapped(node.inputs, [&](ValueId id) { return rows_of(id); });
    RowsOfNode found;
    if (!std::ranges::all_of(inputs, &RowsOfValue::empty)) found = rows_of_node(in_, ops_, node, inputs);
    if (node.op == "expand") add_repeated(node, found.result);
    for (const ValueId id : node.outputs) {
      check_dims(node, id, found.result);
      rows_[id] = found.result;
    }
    masks_.append(node, found);
  }

  // One row that is repeated for all.
  void add_repeated(const Node& node, RowsOfValue& rows) const {
    const auto known = dims_.find(node.outputs[0]);
    if (known == dims_.end()) return;
    const Shape &from = in_.value(node.inputs[0]).type.shape, &to = in_.value(node.outputs[0]).type.shape;
    for (const LiveRows& dim : known->second) {
      const size_t before = to.size() - from.size();
      const bool is_repeated = dim.dim < before || from[dim.dim - before] == 1;
      if (is_repeated && to[dim.dim] == dim.extent) rows.push_back(dim);
    }
  }

  // That the value has rows where its shape depends on the extents, and nowhere else.
  void check_dims(const Node& node, ValueId id, const RowsOfValue& rows) const {
    const auto known = dims_.find(id);
    const RowsOfValue none;
    const RowsOfValue& dims = known == dims_.end() ? none : known->second;
    const auto within = [](const RowsOfValue& some, const RowsOfValue& all) {
      return std::ranges::all_of(some, [&](const LiveRows& a) {
        return std::ranges::any_of(all, [&](const LiveRows& b) { return a.dim == b.dim && a.length == b.length; });
      });
    };
    if (within(rows, dims) && within(dims, rows)) return;
    throw Unsupported("node '{}' ({}) makes {}, whose rows are not those of its operands", node.name, node.op,
                      to_string(in_.value(id).type));
  }

  const Graph& in_;
  const graph::OpTable& ops_;
  const DependentDims& dims_;
  Graph out_;
  std::vector<ValueId> lengths_;
  RowMasks masks_;
  std::map<ValueId, RowsOfValue> rows_;
};

}  // namespace

std::string input_of(const LiveExtent& extent) { return extent.name + "_length"; }

LiveGraph serve_smaller_extents(const Graph& graph, const graph::OpTable& ops, std::span<const LiveExtent> extents,
                                const DependentDims& dims) {
  return ExtentServer(graph, ops, extents, dims).run();
}

}  // namespace tw::transform
