#include "transform/fuse/group_program.h"

#include <fmt/format.h>

#include "te/join_outputs.h"
#include "te/merge_axes.h"
#include "te/rewrite.h"

namespace tw::transform {
namespace {

Graph without_names(const Graph& graph) {
  Graph out = graph;
  out.name.clear();
  for (size_t v = 0; v < out.values.size(); ++v) {
    graph::Value& value = out.values[v];
    value.name = fmt::format("v{}", v);
    if (!value.is_constant()) continue;
    value.constant.reset();
    out.inputs.push_back(static_cast<ValueId>(v));
  }
  for (graph::Node& node : out.nodes) {
    node.name.clear();
    if (node.is_group()) node.body = std::make_shared<const Graph>(without_names(*node.body));
  }
  return out;
}

}  // namespace

std::string shape_of_group(const Graph& group) { return graph::to_string(without_names(group)); }

te::Program stored_program(const Graph& body, const graph::OpTable& ops, std::map<std::string, std::string>* nodes) {
  const graph::GroupProgram group = graph::to_te(body, ops);
  if (nodes != nullptr) *nodes = group.nodes;
  const te::Program program = te::drop_unit_reductions(group.program);
  std::map<std::string, Layout> layouts;
  const auto store = [&](const std::string& tensor, ValueId id) {
    if (!body.value(id).layout.is_identity()) layouts[tensor] = body.value(id).layout;
  };
  for (size_t i = 0; i < group.inputs.size(); ++i) store(group.program.inputs[i].name, group.inputs[i]);
  for (size_t i = 0; i < body.outputs.size(); ++i) store(group.output_tensors[i], body.outputs[i]);
  layouts.merge(te::followed_layouts(program, layouts));
  const te::Program joined = te::order_reductions(te::join_outputs(te::join_sums(te::apply_layouts(program, layouts))));
  return te::merge_reductions(te::apply_layouts(joined, te::mergeable_axes(joined)));
}

}  // namespace tw::transform
