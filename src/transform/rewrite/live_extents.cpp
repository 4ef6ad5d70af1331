#include "transform/rewrite/live_extents.h"

#include <algorithm>

#include "graph/repeat.h"
#include "support/error.h"
#include "support/join.h"
#include "transform/rewrite/row_masks.h"

namespace tw::transform {
namespace {

// What is known of all graphs: the model's, and the bodies of its loops.
struct Served {
  const graph::OpTable& ops;
  std::span<const LiveExtent> extents;
  const DependentDims& dims;
  std::vector<bool> apart;  // by extent, see LiveGraph
};

// Whether a constant is the same whichever of its elements are there.
bool is_alike(const graph::Value& value) {
  const std::span bytes(*value.constant);
  const auto size = static_cast<size_t>(value.type.type.bytes());
  return bytes.size() <= size || std::ranges::equal(bytes.subspan(size), bytes.first(bytes.size() - size));
}

// One of these graphs.
class GraphServer {
 public:
  GraphServer(const Graph& graph, Served& all)
      : in_(graph), all_(all), out_(graph), lengths_(all.extents.size(), kAbsent), masks_(out_, all.ops, [this](int e) {
          return length(e);
        }) {
    out_.nodes.clear();
    const auto known = all.dims.find(&graph);
    if (known != all.dims.end()) dims_ = known->second;
  }

  // Nodes for all of the graph's, whose inputs have these rows.
  void serve(const std::vector<RowsOfValue>& inputs) {
    for (size_t k = 0; k < inputs.size(); ++k) rows_[in_.inputs[k]] = inputs[k];
    for (const auto& [id, rows] : dims_) {
      if (!in_.value(id).is_constant()) continue;
      rows_[id] = rows;
      if (!is_alike(in_.value(id))) set_not_apart(rows);
    }
    for (const Node& node : in_.nodes) add(node);
  }

  Graph& out() { return out_; }
  RowsOfValue rows_of(ValueId id) const { return value_or(rows_, id, RowsOfValue()); }
  RowsOfValue dims_of(ValueId id) const { return value_or(dims_, id, RowsOfValue()); }
  void set_length(int e, ValueId value) { lengths_[static_cast<size_t>(e)] = value; }

  // The value that says how large an extent is: an input that the graph gets when it is first asked for.
  ValueId length(int e) {
    ValueId& known = lengths_[static_cast<size_t>(e)];
    if (known == kAbsent) {
      known = out_.add_input(input_of(all_.extents[static_cast<size_t>(e)]), {DataType::i64(), {1}});
      asked_.push_back(e);
    }
    return known;
  }

  // Rows of one length that a value has once become rows that the next one has once, else some row meets others.
  void part(const RowsOfValue& from, const RowsOfValue& to) {
    for (const LiveRows& rows : from) {
      const auto is_its = [&](const LiveRows& r) { return r.length == rows.length; };
      if (std::ranges::count_if(from, is_its) != 1 || std::ranges::count_if(to, is_its) != 1) set_not_apart({rows});
    }
  }

  void set_not_apart(const RowsOfValue& rows) {
    for (const LiveRows& r : rows) all_.apart[static_cast<size_t>(r.length)] = false;
  }

 private:
  // The rows that begin to be with this node.
  RowsOfValue first_rows(const Node& node) const {
    for (size_t e = 0; e < all_.extents.size(); ++e) {
      const LiveExtent& extent = all_.extents[e];
      if (extent.is_counted() && in_.value(node.outputs[0]).name == extent.rows)
        return {{.length = static_cast<int>(e),
                 .extent = extent.bound,
                 .least = extent.least,
                 .other = OtherRows::kFinite}};
    }
    return {};
  }

  void add(const Node& node) {
    if (node.op == graph::kRepeat) return add_loop(node);
    const auto inputs = mapped(node.inputs, [&](ValueId id) { return rows_of(id); });
    RowsOfNode found;
    if (!std::ranges::all_of(inputs, &RowsOfValue::empty)) found = rows_of_node(in_, all_.ops, node, inputs);
    if (node.op == "expand") add_repeated(node, found.result);
    if (RowsOfValue first = first_rows(node); !first.empty()) found.result = std::move(first);
    for (const ValueId id : node.outputs) take(node, id, found.result);
    masks_.append(node, found);
    for (const RowsOfNode::Fill& fill : found.fills) set_not_apart({fill.rows});
    if (found.last) set_not_apart({*found.last});
    for (const RowsOfValue& rows : inputs) part(rows, found.result);
  }

  // What a turn leaves in a carried value is what the next one is given: known once no turn leaves less.
  void add_loop(const Node& node) {
    const graph::Repeat repeat = graph::repeat_of(node);
    std::vector<RowsOfValue> given = mapped(node.inputs, [&](ValueId id) { return rows_of(id); });
    const std::optional<LiveRows> turns = take_turns(node, repeat, given);
    std::optional<GraphServer> body;
    do {
      body.emplace(*node.body, all_);
      for (size_t k = 0; k < given.size(); ++k) body->check_dims(node, node.body->inputs[k], given[k]);
      body->serve(given);
    } while (weaken(node, *body, std::span(given).first(repeat.carried)));
    for (size_t j = 0; j < node.outputs.size(); ++j) {
      RowsOfValue rows = body->rows_of(node.body->outputs[j]);
      for (LiveRows& r : rows) ++r.dim;
      if (turns && repeat.rows[j] == repeat.turns) rows.push_back(*turns);
      take(node, node.outputs[j], std::move(rows));
    }
    Node served = node;
    if (turns) keep_carried(served, *turns, *body);
    for (const int e : body->asked_) served.inputs.push_back(length(e));
    served.body = std::make_shared<const Graph>(graph::compact(body->out_));
    out_.nodes.push_back(std::move(served));
  }

  // The rows of which each turn reads one, where only the first hold something; `given` becomes what a turn is given.
  std::optional<LiveRows> take_turns(const Node& loop, const graph::Repeat& repeat, std::vector<RowsOfValue>& given) {
    std::vector<LiveRows> turns;
    for (size_t k = repeat.carried; k < repeat.carried + repeat.scanned; ++k) {
      std::ranges::copy_if(given[k], std::back_inserter(turns), [](const LiveRows& r) { return r.dim == 0; });
      std::erase_if(given[k], [](const LiveRows& r) { return r.dim == 0; });
      for (LiveRows& rows : given[k]) --rows.dim;
    }
    if (turns.empty()) return std::nullopt;
    LiveRows first = turns.front();
    const auto& reads = repeat.inputs_backwards;
    bool are_alike = turns.size() == repeat.scanned && first.inner == 1 && all_are(reads, reads[0]) &&
                     std::ranges::all_of(turns, [&](const LiveRows& r) { return r.is_same(first); });
    for (size_t j = 0; j < repeat.rows.size(); ++j)
      are_alike &= repeat.outputs_backwards[j] == reads[0] || (j < repeat.carried && repeat.rows[j] <= 2);
    if (!are_alike)
      throw Unsupported("the loop '{}' has a turn for each row, and takes rows in several orders", loop.name);
    set_not_apart({first});
    first.other = OtherRows::kAny;
    return first;
  }

  // A turn of a row that holds nothing leaves what it is given.
  void keep_carried(Node& loop, const LiveRows& turns, GraphServer& body) {
    graph::Repeat repeat = graph::repeat_of(loop);
    graph::RefTensor places = graph::RefTensor::zeros({DataType::i64(), {repeat.turns}});
    places.ints = sequence(repeat.turns);
    const auto at = static_cast<std::ptrdiff_t>(repeat.carried + repeat.scanned);
    loop.inputs.insert(loop.inputs.begin() + at, masks_.constant("turns", places));
    Graph& out = body.out_;
    const ValueId length = body.length(turns.length), turn = out.add_input("turn", {DataType::i64(), {}});
    out.inputs.pop_back();
    out.inputs.insert(out.inputs.begin() + at, turn);
    const ValueId is_live = body.masks_.emit("live", "less", {turn, length});
    for (size_t c = 0; c < repeat.carried; ++c)
      out.outputs[c] = body.masks_.emit("kept", "where", {is_live, out.outputs[c], out.inputs[c]});
    repeat.inputs_backwards.push_back(repeat.inputs_backwards[0]);
    ++repeat.scanned;
    loop.attrs = graph::attrs_of(repeat);
  }

  // Takes what a turn leaves in the other rows for what it is given there, if that says less.
  static bool weaken(const Node& loop, const GraphServer& body, std::span<RowsOfValue> carried) {
    bool is_less = false;
    for (size_t c = 0; c < carried.size(); ++c) {
      const RowsOfValue left = body.rows_of(loop.body->outputs[c]);
      for (LiveRows& rows : carried[c]) {
        const auto same = std::ranges::find_if(left, [&](const LiveRows& r) { return r.is_same(rows); });
        if (same == left.end())
          throw Unsupported("a turn of the loop '{}' leaves other rows in '{}' than it takes", loop.name,
                            loop.body->value(loop.body->inputs[c]).name);
        is_less |= same->other < rows.other;
        rows.other = std::min(rows.other, same->other);
      }
    }
    return is_less;
  }

  // One row that is repeated for all.
  void add_repeated(const Node& node, RowsOfValue& rows) const {
    const Shape &from = in_.value(node.inputs[0]).type.shape, &to = in_.value(node.outputs[0]).type.shape;
    for (const LiveRows& dim : dims_of(node.outputs[0])) {
      const size_t before = to.size() - from.size();
      const bool is_repeated = dim.dim < before || from[dim.dim - before] == 1;
      if (is_repeated && to[dim.dim] == dim.extent) rows.push_back(dim);
    }
  }

  void take(const Node& node, ValueId id, RowsOfValue rows) {
    check_dims(node, id, rows);
    rows_[id] = std::move(rows);
  }

  // That the value has rows where its shape depends on the extents, and nowhere else.
  void check_dims(const Node& node, ValueId id, const RowsOfValue& rows) const {
    const RowsOfValue dims = dims_of(id);
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
  Served& all_;
  RowsOfValues dims_, rows_;
  Graph out_;
  std::vector<ValueId> lengths_;  // by extent
  std::vector<int> asked_;        // those among them that were added
  RowMasks masks_;
};

class ExtentServer {
 public:
  ExtentServer(const Graph& graph, const graph::OpTable& ops, std::span<const LiveExtent> extents,
               const DependentDims& dims)
      : in_(graph), all_{ops, extents, dims, std::vector<bool>(extents.size(), true)}, server_(graph, all_) {
    for (size_t e = 0; e < extents.size(); ++e) {
      const LiveExtent& extent = extents[e];
      const std::string name = extent.is_counted() ? output_of(extent) : input_of(extent);
      if (graph.find_value(name) != kAbsent)
        throw Unsupported("a value of the model is called '{}', which is the name of the extent '{}'", name,
                          extent.name);
      if (extent.is_counted()) server_.set_length(static_cast<int>(e), graph.find_value(extent.count));
      server_.length(static_cast<int>(e));
    }
  }

  LiveGraph run() {
    const auto given = mapped(in_.inputs, [&](ValueId id) { return server_.dims_of(id); });
    for (const RowsOfValue& rows : given) {
      for (const LiveRows& r : rows) {
        if (r.dim != 0) server_.set_not_apart({r});
      }
    }
    server_.serve(given);
    const std::vector<int> counted = keep_counts();
    Graph& out = server_.out();
    const std::vector<RowsOfValue> rows = mapped(out.outputs, [&](ValueId id) { return server_.rows_of(id); });
    for (const RowsOfValue& of : rows) server_.part(of, of);
    LiveGraph live{graph::compact(out), {}, counted, all_.apart};
    for (size_t o = 0; o < rows.size(); ++o) {
      if (!rows[o].empty()) live.outputs[live.graph.outputs[o]] = rows[o];
    }
    return live;
  }

 private:
  // Outputs that say how many rows of others hold something. Those that no other depends on go.
  std::vector<int> keep_counts() {
    std::vector<int> counted;
    Graph& out = server_.out();
    for (size_t e = 0; e < all_.extents.size(); ++e) {
      if (!all_.extents[e].is_counted()) continue;
      const auto number = static_cast<int>(e);
      const bool is_seen = std::ranges::any_of(in_.outputs, [&](ValueId id) {
        return std::ranges::count(server_.rows_of(id), number, &LiveRows::length) > 0;
      });
      out.values[static_cast<size_t>(server_.length(number))].name = output_of(all_.extents[e]);
      if (is_seen) counted.push_back(number);
      if (!is_seen) std::erase(out.outputs, server_.length(number));
    }
    return counted;
  }

  const Graph& in_;
  Served all_;
  GraphServer server_;
};

}  // namespace

std::string input_of(const LiveExtent& extent) { return extent.name + "_length"; }
std::string output_of(const LiveExtent& extent) { return extent.name + "_count"; }

LiveGraph serve_smaller_extents(const Graph& graph, const graph::OpTable& ops, std::span<const LiveExtent> extents,
                                const DependentDims& dims) {
  return ExtentServer(graph, ops, extents, dims).run();
}

}  // namespace tw::transform
