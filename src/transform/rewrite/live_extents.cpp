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
      : in_(graph), ops_(ops), extents_(extents), dims_(dims), out_(graph), masks_(out_, ops, [this](int e) {
          return lengths_[static_cast<size_t>(e)];
        }) {
    out_.nodes.clear();
    for (const LiveExtent& extent : extents) {
      const std::string name = extent.is_counted() ? output_of(extent) : input_of(extent);
      if (graph.find_value(name) != kAbsent)
        throw Unsupported("a value of the model is called '{}', which is the name of the extent '{}'", name,
                          extent.name);
      lengths_.push_back(extent.is_counted() ? graph.find_value(extent.count)
                                             : out_.add_input(name, {DataType::i64(), {1}}));
    }
  }

  LiveGraph run() {
    apart_.assign(extents_.size(), true);
    for (const auto& [id, rows] : dims_) {
      if (in_.producer(id) >= 0) continue;
      rows_[id] = rows;
      for (const LiveRows& r : rows) {
        const bool has_its_place = in_.value(id).is_constant() || r.dim != 0;
        if (has_its_place) apart_[static_cast<size_t>(r.length)] = false;
      }
    }
    for (const Node& node : in_.nodes) add(node);
    const std::vector<int> counted = keep_counts();
    const std::vector<RowsOfValue> rows = mapped(out_.outputs, [&](ValueId id) { return rows_of(id); });
    for (const RowsOfValue& of : rows) part(of, of);
    LiveGraph out{graph::compact(out_), {}, counted, apart_};
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

  // Outputs that say how many rows of others hold something. Those that no other depends on go.
  std::vector<int> keep_counts() {
    std::vector<int> counted;
    for (size_t e = 0; e < extents_.size(); ++e) {
      if (!extents_[e].is_counted()) continue;
      const bool is_seen = std::ranges::any_of(in_.outputs, [&](ValueId id) {
        return std::ranges::count(rows_of(id), static_cast<int>(e), &LiveRows::length) > 0;
      });
      out_.values[static_cast<size_t>(lengths_[e])].name = output_of(extents_[e]);
      if (is_seen) counted.push_back(static_cast<int>(e));
      if (!is_seen) std::erase(out_.outputs, lengths_[e]);
    }
    return counted;
  }

  // The rows that begin to be with this node.
  RowsOfValue first_rows(const Node& node) const {
    for (size_t e = 0; e < extents_.size(); ++e) {
      const LiveExtent& extent = extents_[e];
      if (extent.is_counted() && in_.value(node.outputs[0]).name == extent.rows)
        return {{.length = static_cast<int>(e),
                 .extent = extent.bound,
                 .least = extent.least,
                 .other = OtherRows::kFinite}};
    }
    return {};
  }

  void add(const Node& node) {
    const auto inputs = mapped(node.inputs, [&](ValueId id) { return rows_of(id); });
    RowsOfNode found;
    if (!std::ranges::all_of(inputs, &RowsOfValue::empty)) found = rows_of_node(in_, ops_, node, inputs);
    if (node.op == "expand") add_repeated(node, found.result);
    if (RowsOfValue first = first_rows(node); !first.empty()) found.result = std::move(first);
    for (const ValueId id : node.outputs) {
      check_dims(node, id, found.result);
      rows_[id] = found.result;
    }
    masks_.append(node, found);
    for (const RowsOfNode::Fill& fill : found.fills) apart_[static_cast<size_t>(fill.rows.length)] = false;
    for (const RowsOfValue& rows : inputs) part(rows, found.result);
  }

  // Rows of one length that a value has once become rows that the next one has once, else some row meets others.
  void part(const RowsOfValue& from, const RowsOfValue& to) {
    for (const LiveRows& rows : from) {
      const auto is_its = [&](const LiveRows& r) { return r.length == rows.length; };
      if (std::ranges::count_if(from, is_its) != 1 || std::ranges::count_if(to, is_its) != 1)
        apart_[static_cast<size_t>(rows.length)] = false;
    }
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
  const std::span<const LiveExtent> extents_;
  const DependentDims& dims_;
  Graph out_;
  std::vector<ValueId> lengths_;
  RowMasks masks_;
  std::map<ValueId, RowsOfValue> rows_;
  std::vector<bool> apart_;  // by extent, see LiveGraph
};

}  // namespace

std::string input_of(const LiveExtent& extent) { return extent.name + "_length"; }
std::string output_of(const LiveExtent& extent) { return extent.name + "_count"; }

LiveGraph serve_smaller_extents(const Graph& graph, const graph::OpTable& ops, std::span<const LiveExtent> extents,
                                const DependentDims& dims) {
  return ExtentServer(graph, ops, extents, dims).run();
}

}  // namespace tw::transform
