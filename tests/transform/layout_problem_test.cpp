// The minimum cut against all labellings of small random graphs.
#include "transform/layout/layout_problem.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ops/list.h"
#include "tests/transform/graph_tools.h"
#include "transform/layout/layout_costs.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

// A few operators on values of one shape, each on values before it; the last value is an output, and sometimes another.
Graph random_graph(std::mt19937_64& random) {
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const size_t channels = 4 << below(5), plane = 3 + below(20);
  const std::string type = fmt::format("f32[1, {}, {}, {}]", channels, plane, plane);
  std::string text =
      fmt::format("graph g {{\n  input x : {}\n  input w : f32[{}, {}, 3, 3]\n  input d : f32[{}, 1, 3, 3]\n", type,
                  channels, channels, channels);
  std::vector<std::string> values = {"x"};
  const size_t count = 3 + below(4);
  for (size_t n = 0; n < count; ++n) {
    const std::string name = fmt::format("v{}", n);
    const std::string a = values[below(values.size())], b = values[below(values.size())];
    const std::string forms[] = {
        fmt::format("conv({}, w) {{pads = [1, 1, 1, 1]}}", a),
        fmt::format("conv({}, d) {{group = {}, pads = [1, 1, 1, 1]}}", a, channels),
        fmt::format("max_pool({}) {{kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [1, 1]}}", a),
        fmt::format("relu({})", a),
        fmt::format("add({}, {})", a, b),
    };
    text += fmt::format("  {} : {} = {} as {}\n", name, type, forms[below(std::size(forms))], name);
    values.push_back(name);
  }
  text += "  output " + values.back() + (below(2) == 0 ? ", " + values[1 + below(count - 1)] : "") + "\n}";
  return testing::parse(text);
}

// Cheap and dear copies, so that one choice does not win everywhere.
TargetInfo random_target(std::mt19937_64& random) {
  TargetInfo target = testing::context().target;
  const double factor = std::exp2(static_cast<double>(random() % 9) - 4);
  MemoryLevel memory;
  memory.name = "DRAM";
  memory.capacity_bytes = int64_t{1} << 30;
  memory.copy_per_ns = memory.read_per_ns = memory.write_per_ns = 8 * factor;
  target.levels = {memory};
  return target;
}

// What layout_problem.h says that a choice costs, summed up node by node.
class Price {
 public:
  Price(const Graph& graph, const TargetInfo& target, const std::vector<StateEnds>& states)
      : graph_(graph), costs_(graph, target), states_(states) {}

  // `last`: by value, whether it is stored channels last; `reads`: by node, the order in which a convolution reads.
  double operator()(const std::vector<bool>& last, const std::vector<bool>& reads) const {
    double ns = 0;
    std::vector<bool> copied(graph_.values.size(), false);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      const ValueId in = node.inputs[0], out = node.outputs[0];
      if (node.op == "conv" || node.op == "max_pool") {
        const bool order = node.op == "conv" ? reads[n] : last[out];
        ns += spatial(node)[order][last[out]];
        copied[in] = copied[in] || order != last[in];
      } else {
        for (const ValueId operand : node.inputs) ns += last[operand] != last[out] ? costs_.conversion_ns(operand) : 0;
      }
    }
    for (const ValueId out : graph_.outputs) {
      const auto state = std::ranges::find(states_, out, &StateEnds::after);
      const bool order = state != states_.end() && last[state->before];
      copied[out] = copied[out] || last[out] != order;
    }
    for (size_t id = 0; id < copied.size(); ++id) ns += copied[id] ? costs_.conversion_ns(static_cast<ValueId>(id)) : 0;
    return ns;
  }

 private:
  // No cut has a gain for two orders that differ beyond that of their parts: it is taken off.
  cost::OrderCosts spatial(const Node& node) const {
    cost::OrderCosts c = costs_.spatial_ns(node);
    if (node.op == "conv") c[0][1] = std::max(c[0][1], c[0][0] + c[1][1] - c[1][0]);
    return c;
  }
  const Graph& graph_;
  LayoutCosts costs_;
  const std::vector<StateEnds>& states_;
};

struct Labelled {
  std::vector<bool> last, reads;
};

Labelled labels_of(const Graph& graph, const LayoutChoice& choice) {
  Labelled out{choice.channels_last, std::vector<bool>(graph.nodes.size())};
  for (const OrderedRead& r : choice.reads) out.reads[static_cast<size_t>(r.node)] = r.channels_last;
  return out;
}

// Bits of `mask`: states, values that nodes write, then reads of convolutions.
Labelled labels_of(const Graph& graph, const std::vector<StateEnds>& states, uint64_t mask) {
  Labelled out{std::vector<bool>(graph.values.size()), std::vector<bool>(graph.nodes.size())};
  for (const StateEnds& state : states) {
    out.last[state.before] = mask & 1;
    mask >>= 1;
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n, mask >>= 1) out.last[graph.nodes[n].outputs[0]] = mask & 1;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].op != "conv") continue;
    out.reads[n] = mask & 1;
    mask >>= 1;
  }
  return out;
}

TEST(LayoutProblem, NoLabellingIsCheaper) {
  std::mt19937_64 random(41);
  int mixed = 0, last = 0, kept_last = 0;
  for (int round = 0; round < 300; ++round) {
    const Graph graph = random_graph(random);
    const TargetInfo target = random_target(random);
    std::vector<StateEnds> states;  // x and the last output, in every other graph
    if (round % 2 == 1) states = {{graph.inputs[0], graph.outputs[0]}};
    const Price price(graph, target, states);
    const Labelled chosen = labels_of(graph, choose_layouts(graph, ops::all_ops(), target, states));
    const double ns = price(chosen.last, chosen.reads);
    kept_last += !states.empty() && chosen.last[graph.inputs[0]] ? 1 : 0;
    size_t bits = graph.nodes.size() + states.size();
    for (const Node& node : graph.nodes) bits += node.op == "conv" ? 1 : 0;
    double best = INFINITY;
    for (uint64_t mask = 0; mask < uint64_t{1} << bits; ++mask) {
      const Labelled labels = labels_of(graph, states, mask);
      best = std::min(best, price(labels.last, labels.reads));
    }
    ASSERT_NEAR(ns, best, 1e-9 * best) << graph::to_string(graph);
    size_t here = 0;
    for (const Node& node : graph.nodes) here += chosen.last[node.outputs[0]] ? 1 : 0;
    last += here == graph.nodes.size() ? 1 : 0;
    mixed += here > 0 && here < graph.nodes.size() ? 1 : 0;
  }
  // The graphs ask something: several answers occur.
  EXPECT_GT(kept_last, 10);
  EXPECT_LT(kept_last, 140);
  EXPECT_GT(mixed, 20);
  EXPECT_GT(last, 20);
  EXPECT_LT(mixed + last, 280);
}

// In every other graph x and the last output.
std::vector<StateNames> states_of(const Graph& graph, int round) {
  if (round % 2 == 0) return {};
  return {{"x", graph.value(graph.outputs[0]).name}};
}

// What was chosen by the parameters of one machine holds by those of another one.
TEST(LayoutProblem, WhatAPlanSaysHolds) {
  std::mt19937_64 random(43);
  int differ = 0;
  for (int round = 0; round < 200; ++round) {
    const Graph graph = random_graph(random);
    TransformContext here = testing::context(), there = testing::context();
    here.target = random_target(random), there.target = random_target(random);
    here.states = there.states = states_of(graph, round);
    ValueLayouts chosen, again;
    here.chosen = &chosen;
    const std::string wanted = graph::to_string(write_transposed(assign_layouts(graph, here), here));
    differ += graph::to_string(write_transposed(assign_layouts(graph, there), there)) != wanted ? 1 : 0;
    there.layouts = &chosen;
    there.chosen = &again;
    ASSERT_EQ(graph::to_string(write_transposed(assign_layouts(graph, there), there)), wanted);
    EXPECT_EQ(again, chosen);
  }
  EXPECT_GT(differ, 20) << "the machines ask something";
}

// A plan that knows some of the values: those are as it says, and whatever is chosen for the others is right.
TEST(LayoutProblem, WhatAPlanDoesNotSayIsChosen) {
  std::mt19937_64 random(44);
  for (int round = 0; round < 100; ++round) {
    const Graph graph = random_graph(random);
    TransformContext context = testing::context();
    context.target = random_target(random);
    ValueLayouts known, chosen;
    for (const Node& node : graph.nodes) {
      const uint64_t bits = random();
      if (bits % 2 == 0) known.values[node.name] = bits % 4 == 0 ? channels_last(4) : Layout();
      if (bits % 8 == 6) known.values[node.name] = Layout().reorder({1, 0, 3, 2});
      if (bits % 16 == 12) known.reads[{node.name, 0}] = Layout();
    }
    context.states = states_of(graph, round);
    if (round % 4 == 1) known.values["x"] = round % 8 == 1 ? Layout().reorder({1, 0, 3, 2}) : Layout();
    known.values["not there"] = channels_last(4);
    known.values[graph.nodes.front().name] = Layout().reorder({1, 0});  // of another rank
    context.layouts = &known;
    context.chosen = &chosen;
    const Graph assigned = write_transposed(assign_layouts(graph, context), context);
    graph::verify(assigned, context.ops);
    testing::expect_same_function(graph, assigned, 0);
    for (const StateNames& state : context.states) {
      const Layout& kept = assigned.value(assigned.find_value(state.before)).layout;
      EXPECT_EQ(assigned.value(assigned.find_value(state.after)).layout, kept);
      EXPECT_EQ(chosen.values.at(state.before), kept);
      if (known.values.contains("x")) {
        EXPECT_EQ(known.values.at("x"), kept);
      }
    }
    for (const Node& node : graph.nodes) {
      if (&node == &graph.nodes.front() || !known.values.contains(node.name)) continue;
      if (!chosen.values.contains(node.name)) continue;  // no output needs it
      EXPECT_EQ(chosen.values.at(node.name), known.values.at(node.name)) << node.name;
    }
  }
}

}  // namespace
}  // namespace tw::transform
