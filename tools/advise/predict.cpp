#include "advise/predict.h"

#include "driver/entry_groups.h"
#include "driver/entry_passes.h"
#include "driver/states.h"
#include "ops/list.h"

namespace tw::advise {
namespace {

using graph::Graph;
using graph::Node;

double flop_of(const Graph& model, const Node& node) {
  const auto shape = [&](graph::ValueId id) -> const Shape& { return model.value(id).type.shape; };
  const auto results = static_cast<double>(num_elements(shape(node.outputs[0])));
  const Shape& w = shape(node.inputs[1]);
  if (node.op == "matmul") return 2 * results * static_cast<double>(w.size() < 2 ? w.at(0) : w[w.size() - 2]);
  return 2 * results * static_cast<double>(num_elements({w.begin() + 1, w.end()}));
}

void count(const Graph& model, Cost& cost) {
  for (const graph::Value& value : model.values) {
    if (value.is_constant() && value.type.elements() > 1) cost.parameters += value.type.elements();
  }
  for (const Node& node : model.nodes) {
    if (node.op == "matmul" || node.op == "conv") cost.flop += flop_of(model, node);
  }
}

}  // namespace

Predictor::Predictor(const driver::CompileOptions& options, const targets::Target& target)
    : options_(options), target_(target), ops_(ops::all_ops()), planner_(target, nullptr, {}, {}, options.precision) {}

Cost Predictor::cost(const Graph& given) {
  const Graph model = driver::with_states_last(given, options_.states, options_.dtype);
  Cost cost;
  count(model, cost);
  const transform::TransformContext context = driver::transform_context(ops_, target_.info, options_, {});
  const driver::EntryGroups groups =
      driver::entry_groups(transform::transform(model, context, driver::pass_options(options_, {})), ops_, target_,
                           driver::names_of(options_.states), options_.watch.get());
  const size_t nodes = groups.graph.nodes.size();
  const auto name = [&](size_t i) -> const std::string& { return groups.graph.nodes[i].name; };
  for (size_t i = 0; i < nodes; ++i) {
    if (groups.has_code(i)) planner_.add(name(i), groups.te[groups.first[i]], groups.text(i));
  }
  driver::Cubins cubins;
  planner_.decide({target_.info, {}, {options_.threads, cubins}, {}, {}});
  for (size_t i = 0; i < nodes; ++i) {
    if (groups.is_view(i)) continue;
    const double us = groups.is_loop(i) ? 0 : planner_.plan_of(name(i), groups.text(i)).predicted_us;
    cost.us += us;
    ++cost.groups;
    cost.unpredicted += us == 0;
  }
  return cost;
}

}  // namespace tw::advise
