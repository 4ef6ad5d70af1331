#include "transform/layout/layout_problem.h"

#include "cost/calibrated.h"
#include "graph/repeat.h"
#include "support/binary_labels.h"
#include "transform/layout/layout_costs.h"
#include "transform/roles.h"
#include "transform/storage_order.h"

namespace tw::transform {
namespace {

using PairCosts = BinaryLabels::PairCosts;

Layout last_of(const graph::Value& value) { return channels_last(static_cast<int>(value.type.shape.size())); }

// A reshape of spatial dims only.
bool keeps_channels(const Graph& graph, const Node& node) {
  if (node.op != "reshape") return false;
  const Shape& in = graph.value(node.inputs[0]).type.shape;
  const Shape& out = graph.value(node.outputs[0]).type.shape;
  return in.size() >= 3 && out.size() >= 3 && in[0] == out[0] && in[1] == out[1];
}

class LayoutProblem {
 public:
  LayoutProblem(const Graph& graph, const graph::OpTable& ops, const TargetInfo& target,
                const std::vector<StateEnds>& states)
      : graph_(graph),
        ops_(ops),
        costs_(graph, target),
        shares_filters_(target.kind == DeviceKind::kCuda),
        written_(graph.values.size()),
        reads_(graph.values.size()) {
    row_major_ = labels_.add();
    labels_.add_cost(row_major_, 0, kForbiddenCost);
    std::ranges::fill(written_, row_major_);
    for (const StateEnds& state : states) {
      if (!has_choice(state.before)) continue;
      written_[state.before] = labels_.add();
      if (state.after != graph::kAbsent) left_as_[state.after] = written_[state.before];
    }
    for (const Node& node : graph.nodes) {
      if (node.outputs.size() == 1 && may_choose(node)) written_[node.outputs[0]] = labels_.add();
    }
  }

  LayoutChoice solve(const KnownOrders& known, Prices prices) {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) add_node(static_cast<int>(n));
    add_known(known);
    for (const ValueId id : graph_.outputs) {
      const auto state = left_as_.find(id);
      if (has_choice(id)) reads_[id].push_back({-1, 0, state == left_as_.end() ? row_major_ : state->second});
    }
    for (size_t id = 0; id < reads_.size(); ++id) add_copies(static_cast<ValueId>(id));
    const std::vector<bool> labels = labels_.solve();
    LayoutChoice choice;
    for (const int variable : written_) choice.channels_last.push_back(labels[variable]);
    for (const std::vector<Read>& reads : reads_) {
      for (const Read& r : reads) {
        if (r.node >= 0) choice.reads.push_back({r.node, r.input, labels[r.variable]});
      }
    }
    if (prices == Prices::kOfBoth) add_prices(choice);
    return choice;
  }

 private:
  struct Read {
    int node;  // -1: the graph's caller, or a state
    size_t input;
    int variable;
  };

  void add_prices(LayoutChoice& choice) const {
    std::vector<int> variables = written_;
    for (const std::vector<Read>& reads : reads_) {
      for (const Read& r : reads) {
        if (r.node >= 0) variables.push_back(r.variable);
      }
    }
    const std::vector<double> other = labels_.costs_of_other(variables);
    for (size_t id = 0; id < written_.size(); ++id)
      choice.other_ns.push_back(written_[id] == row_major_ ? std::nullopt : std::optional(other[id]));
    for (size_t r = 0; r < choice.reads.size(); ++r) choice.reads[r].other_ns = other[written_.size() + r];
  }

  const graph::Value& value(ValueId id) const { return graph_.value(id); }
  bool has_choice(ValueId id) const { return id != kAbsent && !value(id).is_kept() && has_order(value(id)); }

  bool may_choose(const Node& node) const {
    if (!has_choice(node.outputs[0])) return false;
    return is_spatial(node) || follows_layout(ops_, node) || keeps_channels(graph_, node) ||
           (node.op == "transpose" && !graph_.is_output(node.outputs[0]));
  }

  int written(ValueId id) const { return written_[id]; }

  void add_node(int n) {
    const Node& node = graph_.nodes[n];
    if (node.op == graph::kRepeat) return add_rows(n);
    if (node.outputs.size() != 1) return;
    if (is_spatial(node)) return add_spatial(n);
    if (node.op == "transpose") return add_view(node);
    if (node.op == "reshape") return add_reshape(n);
    if (follows_layout(ops_, node)) return add_follower(node);
    // Others read in place whatever order they find: reductions along any dims as well as along the last.
    if (role_of(ops_, node) == Role::kReduction) return;
    for (const ValueId in : node.inputs) {
      if (has_choice(in)) labels_.add_cost(written(in), 0, costs_.conversion_ns(in));
    }
  }

  void add_known(const KnownOrders& known) {
    const auto decide = [&](int variable, bool last) {
      if (variable != row_major_) labels_.add_cost(variable, last ? kForbiddenCost : 0, last ? 0 : kForbiddenCost);
    };
    for (const auto& [id, last] : known.values) decide(written(id), last);
    for (const std::vector<Read>& reads : reads_) {
      for (const Read& r : reads) {
        if (const auto order = known.reads.find({r.node, r.input}); order != known.reads.end())
          decide(r.variable, order->second);
      }
    }
  }

  // A body takes what its loop reads as a caller gives it.
  void add_rows(int n) {
    const std::vector<ValueId>& inputs = graph_.nodes[n].inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (has_choice(inputs[i])) reads_[inputs[i]].push_back({n, i, row_major_});
    }
  }

  void add_read(int n, int variable) {
    const ValueId in = graph_.nodes[n].inputs[0];
    reads_[in].push_back({n, 0, variable});
  }

  // A convolution has an order for its input and one for its output, a pooling the same for both. Where one of them
  // has no order of its own, it counts as the other's.
  void add_spatial(int n) {
    const Node& node = graph_.nodes[n];
    const bool reads = has_choice(node.inputs[0]);
    const bool writes = has_choice(node.outputs[0]);
    if (!writes) {
      const bool is_window = role_of(ops_, node) == Role::kWindow || role_of(ops_, node) == Role::kReduction;
      if (reads && !is_window) read_by(n, 1);
      return;
    }
    cost::OrderCosts costs = costs_.spatial_ns(node);
    const int out = written(node.outputs[0]);
    if (!reads) return labels_.add_cost(out, costs[0][0], costs[1][1]);
    if (role_of(ops_, node) != Role::kContraction) {
      labels_.add_cost(out, costs[0][0], costs[1][1]);
      return add_read(n, out);
    }
    const int in = labels_.add();
    costs[0][1] = std::max(costs[0][1], costs[0][0] + costs[1][1] - costs[1][0]);
    labels_.add_pair(in, out, costs);
    add_read(n, in);
    add_filters(node, in, costs[1][1]);
  }

  // Filters that are computed: a GPU's tiles read them along their channels where those of the images are neighbours.
  // Element by element they take as long again as the products, or longer: each tile reads all of its filters.
  void add_filters(const Node& node, int in, double products_ns) {
    const ValueId filters = node.inputs.size() < 2 ? kAbsent : node.inputs[1];
    if (!shares_filters_ || !has_choice(filters) || written(filters) == row_major_) return;
    const double apart = costs_.conversion_ns(filters) + products_ns;
    labels_.add_pair(in, written(filters), {{{0, apart}, {apart, 0}}});
  }

  // A convolution to one point: the order of its input alone.
  void read_by(int n, int out) {
    const cost::OrderCosts costs = costs_.spatial_ns(graph_.nodes[n]);
    const int in = labels_.add();
    labels_.add_cost(in, costs[0][out], costs[1][out]);
    add_read(n, in);
  }

  // Adds a pair of labels of values; one of them may have no choice.
  void add_values(ValueId in, ValueId out, const PairCosts& costs) {
    const int a = has_choice(in) ? written(in) : row_major_;
    const int b = has_choice(out) ? written(out) : row_major_;
    if (a == row_major_ || b == row_major_) {
      if (b != row_major_) labels_.add_cost(b, costs[0][0], costs[0][1]);
      if (a != row_major_) labels_.add_cost(a, costs[0][0], costs[1][0]);
      return;
    }
    if (BinaryLabels::is_submodular(costs)) return labels_.add_pair(a, b, costs);
    // A transpose between the two orders: free where one is channels last and the other row-major. No cut has that; the
    // free combination is kept, both of its labels priced alone.
    const bool from_last = costs[1][0] <= costs[0][1];
    const double lost = std::max(costs[0][0], costs[1][1]);
    labels_.add_cost(a, from_last ? lost : 0, from_last ? 0 : lost);
    labels_.add_cost(b, from_last ? 0 : lost, from_last ? lost : 0);
  }

  // A node that is nothing at all where the orders of input and output agree, and a copy elsewhere.
  template <typename IsView>
  void add_movement(const Node& node, const IsView& is_view) {
    PairCosts costs{};
    const graph::Value& in = value(node.inputs[0]);
    const graph::Value& out = value(node.outputs[0]);
    for (const int a : {0, 1}) {
      for (const int b : {0, 1}) {
        const Layout from = a == 1 && has_choice(node.inputs[0]) ? last_of(in) : Layout();
        const Layout to = b == 1 && has_choice(node.outputs[0]) ? last_of(out) : Layout();
        costs[a][b] = is_view(from, to) ? 0 : costs_.conversion_ns(node.outputs[0]);
      }
    }
    add_values(node.inputs[0], node.outputs[0], costs);
  }

  void add_view(const Node& node) {
    const Shape& shape = value(node.outputs[0]).type.shape;
    add_movement(node, [&](const Layout& from, const Layout& to) {
      const auto view = view_of_transpose(node, from, shape.size());
      return view && same_bytes(shape, *view, to);
    });
  }

  // A reshape that mixes channels with other dims of channels-last storage would divide for every element.
  void add_reshape(int n) {
    const Node& node = graph_.nodes[n];
    if (keeps_channels(graph_, node)) {
      return add_movement(node, [&](const Layout& from, const Layout& to) {
        return from.is_identity() == to.is_identity() || !has_choice(node.inputs[0]) || !has_choice(node.outputs[0]);
      });
    }
    if (has_choice(node.inputs[0])) add_read(n, row_major_);
  }

  // Reads its inputs in place; those of another order through their lines, as a copy would. What moves elements itself
  // passes over memory once in any case.
  void add_follower(const Node& node) {
    const ValueId out = node.outputs[0];
    const double share = role_of(ops_, node) == Role::kPad ? cost::kShareOfMove : 1;
    for (const ValueId in : node.inputs) {
      if (!has_choice(in) || value(in).type.shape.size() != value(out).type.shape.size()) continue;
      const double copy = share * costs_.conversion_ns(in);
      add_values(in, out, {{{0, copy}, {copy, 0}}});
    }
  }

  // The copy of a value in the other order, which all its reads in that order share.
  void add_copies(ValueId id) {
    const std::vector<Read>& reads = reads_[id];
    if (reads.empty()) return;
    const double copy = costs_.conversion_ns(id);
    if (reads.size() == 1) {
      const int reader = reads[0].variable;
      if (reader != written(id)) labels_.add_pair(written(id), reader, {{{0, copy}, {copy, 0}}});
      return;
    }
    const int any_last = labels_.add();  // 1 where a read is channels last
    const int all_last = labels_.add();  // 0 where a read is row-major
    for (const Read& r : reads) {
      labels_.add_pair(r.variable, any_last, {{{0, 0}, {kForbiddenCost, 0}}});
      labels_.add_pair(all_last, r.variable, {{{0, 0}, {kForbiddenCost, 0}}});
    }
    labels_.add_pair(any_last, written(id), {{{0, 0}, {copy, 0}}});
    labels_.add_pair(written(id), all_last, {{{0, 0}, {copy, 0}}});
  }

  const Graph& graph_;
  const graph::OpTable& ops_;
  LayoutCosts costs_;
  const bool shares_filters_;  // tiles read computed filters as they lie
  BinaryLabels labels_;
  int row_major_ = 0;                     // the label that is always 0
  std::vector<int> written_;              // by value: the variable of its order
  std::map<ValueId, int> left_as_;        // outputs that are a state's next value: the variable of the state's order
  std::vector<std::vector<Read>> reads_;  // by value: reads in an order of their own
};

}  // namespace

bool has_order(const graph::Value& value) {
  const Shape& shape = value.type.shape;
  return shape.size() >= 3 && !same_bytes(shape, last_of(value), Layout());
}

LayoutChoice choose_layouts(const Graph& graph, const graph::OpTable& ops, const TargetInfo& target,
                            const std::vector<StateEnds>& states, const KnownOrders& known, Prices prices) {
  return LayoutProblem(graph, ops, target, states).solve(known, prices);
}

}  // namespace tw::transform
