// Subgraphs and local functions: branches, the bodies of loops, calls.
#include <algorithm>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/limits.h"
#include "frontend/onnx/liveness.h"

namespace tw::frontend {
namespace {

// What a body's nodes left under the name of its output.
ValueId result_of(const NameScope& scope, std::string_view kind, const std::string& body, const std::string& name) {
  const std::optional<Binding> binding = scope.find(name);
  if (!binding) throw UserError("no node of {} '{}' writes its output '{}'", kind, body, name);
  if (binding->unsupported) throw BodyUnsupported{};
  return binding->id;
}

}  // namespace

Outputs Importer::call_function(const onnx::FunctionProto& function, NodeContext& c) {
  NameScope scope;
  scope.prefix = c.scope().prefix + c.name() + "/";
  scope.opsets = &function_opsets_.at(&function);
  scope.depth = c.scope().depth + 1;
  if (scope.depth > kMaxDepth) throw UserError("functions and subgraphs are nested more than {} deep", kMaxDepth);
  for (const auto& fallback : function.attribute_proto()) scope.attributes[fallback.name()] = &fallback;
  for (const auto& attribute : c.node().attribute()) {
    const onnx::AttributeProto* value = &attribute;
    if (!attribute.ref_attr_name().empty()) {
      const auto it = c.scope().attributes.find(attribute.ref_attr_name());
      if (it == c.scope().attributes.end()) continue;
      value = it->second;
    }
    scope.attributes[attribute.name()] = value;
  }
  visited_.insert(&function);
  for (int k = 0; k < function.input_size(); ++k) define(scope, function.input(k), {c.input_or_absent(k)});
  import_nodes(function.node(), {function.output().begin(), function.output().end()}, scope);
  return mapped(function.output(),
                [&](const std::string& name) { return result_of(scope, "function", function.name(), name); });
}

NameScope Importer::scope_of_body(const onnx::GraphProto& body, const NameScope& outer, const std::string& prefix) {
  NameScope scope;
  scope.parent = &outer;
  scope.prefix = prefix;
  scope.opsets = outer.opsets;
  scope.attributes = outer.attributes;
  scope.depth = outer.depth + 1;
  visited_.insert(&body);
  if (scope.depth > kMaxDepth) throw UserError("functions and subgraphs are nested more than {} deep", kMaxDepth);
  return scope;
}

std::vector<ValueId> Importer::import_nodes_of(const onnx::GraphProto& body, const std::vector<ValueId>& inputs,
                                               NameScope& scope) {
  if (body.input_size() != static_cast<int>(inputs.size())) {
    throw UserError("subgraph '{}' has {} inputs, it is given {}", body.name(), body.input_size(), inputs.size());
  }
  for (size_t k = 0; k < inputs.size(); ++k) define(scope, body.input(static_cast<int>(k)).name(), {inputs[k]});
  Names needed;
  for (const auto& output : body.output()) needed.insert(output.name());
  add_initializers(body, names_read(body.node(), needed), scope);
  import_nodes(body.node(), std::move(needed), scope);
  return mapped(body.output(), [&](const auto& o) { return result_of(scope, "subgraph", body.name(), o.name()); });
}

std::vector<ValueId> Importer::import_body(const onnx::GraphProto& body, const NameScope& outer,
                                           const std::vector<ValueId>& inputs, const std::string& prefix) {
  NameScope scope = scope_of_body(body, outer, prefix);
  return import_nodes_of(body, inputs, scope);
}

std::optional<std::vector<ValueId>> Importer::import_turn(const onnx::GraphProto& body, const NameScope& outer,
                                                          LoopBody& loop, const std::vector<ValueId>& inputs,
                                                          const std::string& prefix) {
  if (turns_differ_.contains(&body)) return std::nullopt;  // loops within loops are not tried again for each turn
  const Mark before = mark();
  std::optional<std::vector<ValueId>> outputs;
  try {
    NameScope scope = scope_of_body(body, outer, prefix);
    scope.captured = [&loop](ValueId id) { return loop.captured(id); };
    at_ = &loop.builder();
    outputs = import_nodes_of(body, inputs, scope);
    const bool has_sequence =
        std::ranges::any_of(*outputs, [&](ValueId id) { return builder().sequence(id) != nullptr; });
    const bool draws = dropouts_ != before.dropouts;  // each turn draws other numbers
    if (has_sequence || draws) outputs.reset();
  } catch (const BodyUnsupported&) {
  } catch (const UserError&) {
  } catch (const Unsupported&) {
  }
  if (!outputs) {
    return_to(before);
    turns_differ_.insert(&body);
  }
  at_ = before.at;
  return outputs;
}

Importer::Mark Importer::mark() const { return {at_, visited_, unsupported_, bindable_, warnings_, dropouts_, nodes_}; }

void Importer::return_to(const Mark& mark) {
  at_ = mark.at;
  visited_ = mark.visited;
  unsupported_ = mark.unsupported;
  bindable_ = mark.bindable;
  warnings_ = mark.warnings;
  dropouts_ = mark.dropouts;
  nodes_ = mark.nodes;
}

void Importer::survey_bodies(const onnx::NodeProto& node, const NameScope& scope) {
  NameScope inner;
  inner.prefix = scope.prefix + node.name() + "/";
  inner.opsets = scope.opsets;
  inner.depth = scope.depth + 1;
  if (inner.depth > kMaxDepth) return;
  for (const auto& attribute : node.attribute()) {
    if (!attribute.has_g() || !visited_.insert(&attribute.g()).second) continue;
    NameScope body = inner;
    body.prefix += attribute.name() + "/";
    Names needed;
    for (const auto& output : attribute.g().output()) needed.insert(output.name());
    survey(attribute.g().node(), std::move(needed), body);
  }
  const onnx::FunctionProto* function = find_function(node);
  if (function == nullptr || !visited_.insert(function).second) return;
  inner.opsets = &function_opsets_.at(function);
  survey(function->node(), {function->output().begin(), function->output().end()}, inner);
}

// Looks for operators only: the values that they read are not known.
void Importer::survey(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, Names needed,
                      const NameScope& scope) {
  const std::vector<bool> live = live_nodes(nodes, std::move(needed));
  for (int i = 0; i < nodes.size(); ++i) {
    if (!live[i]) continue;
    if (!is_known(nodes[i], scope)) record_unsupported(nodes[i], scope, "");
    survey_bodies(nodes[i], scope);
  }
}

}  // namespace tw::frontend
