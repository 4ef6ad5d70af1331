#include "frontend/onnx/graph_builder.h"

#include <algorithm>

#include "frontend/onnx/file/tensor_data.h"
#include "frontend/onnx/limits.h"
#include "support/error.h"
#include "support/join.h"

namespace tw::frontend {

GraphBuilder::GraphBuilder(std::string name, const graph::OpTable& ops) : ops_(ops) { graph_.name = std::move(name); }

std::string GraphBuilder::unique(const std::string& wanted) {
  const std::string base = wanted.empty() ? std::string("v") : wanted;
  std::string name = base;
  while (true) {
    const auto [it, added] = taken_.emplace(name, 1);
    if (added) return name;
    name = fmt::format("{}_{}", base, taken_[base]++);
  }
}

// Values are appended here and not through Graph::add_value, whose scan for a free name would make import quadratic.
ValueId GraphBuilder::add_value(const std::string& name, TensorType type) {
  graph_.values.push_back({.name = unique(name), .type = std::move(type), .layout = {}, .constant = nullptr});
  producers_.push_back(-1);
  return static_cast<ValueId>(graph_.values.size() - 1);
}

ValueId GraphBuilder::add_input(const std::string& name, TensorType type) {
  const ValueId id = add_value(name, std::move(type));
  graph_.inputs.push_back(id);
  return id;
}

ValueId GraphBuilder::add_constant(const std::string& name, TensorType type, graph::Bytes bytes) {
  TW_CHECK(static_cast<int64_t>(bytes->size()) == type.bytes(), "constant '{}'", name);
  const ValueId id = add_value(name, std::move(type));
  graph_.values[id].constant = std::move(bytes);
  return id;
}

ValueId GraphBuilder::add_constant(const std::string& name, const graph::RefTensor& tensor) {
  return add_constant(name, tensor.type, share(tensor.to_bytes()));
}

ValueId GraphBuilder::add_sequence(const std::string& name, std::vector<ValueId> elements) {
  const ValueId id = add_constant(name, {{DataType::i64(), {}}, {}, {std::ssize(elements)}});
  sequences_.emplace(id, std::move(elements));
  return id;
}

const std::vector<ValueId>* GraphBuilder::sequence(ValueId id) const {
  const auto found = sequences_.find(id);
  return found == sequences_.end() ? nullptr : &found->second;
}

graph::RefTensor GraphBuilder::constant(ValueId id) {
  looked_at_.push_back(id);
  return elements(id);
}

// Results come behind their operands.
std::vector<bool> GraphBuilder::looked_at() const {
  std::vector<bool> seen(graph_.values.size(), false);
  for (const ValueId id : looked_at_) seen[id] = true;
  for (auto it = folded_from_.rbegin(); it != folded_from_.rend(); ++it) {
    for (const ValueId operand : it->second) seen[operand] = seen[operand] || seen[it->first];
  }
  return seen;
}

graph::RefTensor GraphBuilder::elements(ValueId id) const {
  const graph::Value& value = graph_.value(id);
  TW_CHECK(value.is_constant(), "value '{}' is not a constant", value.name);
  return graph::RefTensor::from_bytes(value.type, *value.constant);
}

std::vector<ValueId> GraphBuilder::append(graph::Node node, const std::string& value_name) {
  const graph::OpDef* op = ops_.find(node.op);
  if (op == nullptr) throw Unsupported("it needs the operator '{}', which does not exist here", node.op);
  const graph::OpCall call = graph::make_call(graph_, node);
  const std::vector<TensorType> types = op->output_types(call);
  for (const TensorType& type : types) check_extents(type.shape, "the result");
  if (can_fold(call, types)) return fold(call, value_name);
  if (std::ssize(graph_.nodes) >= kMaxOperators) {
    throw UserError(
        "the model needs more than {} operators once loops and recurrences are unrolled: give it shorter sequences "
        "(--shape, --dim) or fewer iterations, or split it",
        kMaxOperators);
  }
  node.outputs.clear();
  for (size_t k = 0; k < types.size(); ++k) {
    node.outputs.push_back(add_value(k == 0 ? value_name : fmt::format("{}.{}", value_name, k), types[k]));
    producers_.back() = static_cast<int>(graph_.nodes.size());
  }
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().outputs;
}

bool GraphBuilder::can_fold(const graph::OpCall& call, const std::vector<TensorType>& types) {
  if (graph::draws_numbers(call.node)) return false;  // who trains gives it a seed
  if (call.node.body != nullptr) return false;        // what a loop costs, its tensors do not say
  int64_t work = 0;
  for (size_t k = 0; k < call.inputs.size(); ++k) {
    if (!call.present[k]) continue;
    if (!is_constant(call.node.inputs[k]) || kept_.contains(call.node.inputs[k])) return false;
    if (call.inputs[k].elements() > kMaxFoldInputElements) return false;
    work += call.inputs[k].elements();
  }
  for (const TensorType& type : types) {
    if (type.elements() > kMaxFoldedElements) return false;
    work += type.elements();
  }
  if (fold_work_ + work > kMaxFoldWork) return false;
  fold_work_ += work;
  return true;
}

std::vector<ValueId> GraphBuilder::fold(const graph::OpCall& call, const std::string& value_name) {
  std::vector<graph::RefTensor> inputs = by_index(call.inputs.size(), [&](size_t k) {
    return call.present[k] ? elements(call.node.inputs[k]) : graph::RefTensor::zeros(call.inputs[k]);
  });
  std::vector<graph::RefTensor> results = ops_.at(call.node.op).reference(call, inputs);
  std::vector<ValueId> ids;
  for (graph::RefTensor& result : results) {
    result.round_to_type();
    ids.push_back(add_constant(value_name, result));
    std::ranges::copy_if(call.node.inputs, std::back_inserter(folded_from_[ids.back()]),
                         [](ValueId in) { return in != kAbsent; });
  }
  return ids;
}

// In the order of the graph, in which operands come first.
std::vector<int> GraphBuilder::nodes_behind(ValueId id) const {
  std::set<int> nodes;
  std::vector<ValueId> work{id};
  while (!work.empty()) {
    const int node = producers_.at(work.back());
    work.pop_back();
    if (node < 0 || !nodes.insert(node).second) continue;
    std::ranges::copy_if(graph_.nodes[node].inputs, std::back_inserter(work), [](ValueId in) { return in != kAbsent; });
  }
  return {nodes.begin(), nodes.end()};
}

graph::RefTensor GraphBuilder::evaluate(ValueId id) {
  if (const auto known = evaluated_.find(id); known != evaluated_.end()) return known->second;
  std::map<ValueId, graph::RefTensor> values;
  for (const int n : nodes_behind(id)) {
    const graph::Node& node = graph_.nodes[n];
    const graph::OpCall call = graph::make_call(graph_, node);
    std::vector<graph::RefTensor> inputs;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId in = node.inputs[k];
      if (in != kAbsent && !values.contains(in)) {
        if (kept_.contains(in))
          throw Unsupported("'{}' must be known at compile time, and depends on '{}', which may change", value_name(id),
                            value_name(in));
        values.emplace(in, constant(in));
      }
      inputs.push_back(in == kAbsent ? graph::RefTensor::zeros(call.inputs[k]) : values.at(in));
      fold_work_ += inputs.back().type.elements();
    }
    for (const ValueId out : node.outputs) fold_work_ += type(out).elements();
    if (fold_work_ > kMaxFoldWork || graph::draws_numbers(node)) {
      throw Unsupported(
          "'{}' must be known at compile time, and what it is computed from is too much to evaluate then (more than {} "
          "elements): fold constants when the model is exported",
          value_name(id), kMaxFoldWork);
    }
    std::vector<graph::RefTensor> results = ops_.at(node.op).reference(call, inputs);
    for (size_t k = 0; k < results.size(); ++k) {
      results[k].round_to_type();
      values.insert_or_assign(node.outputs[k], std::move(results[k]));
    }
  }
  return evaluated_.emplace(id, std::move(values.at(id))).first->second;
}

void GraphBuilder::rename(ValueId id, const std::string& name) {
  std::string& current = graph_.values.at(id).name;
  if (current == name) return;
  taken_.erase(current);
  current = unique(name);
}

void GraphBuilder::force_name(ValueId id, const std::string& name) {
  if (graph_.value(id).name == name) return;
  if (const ValueId holder = graph_.find_value(name); holder != kAbsent) graph_.values[holder].name = unique(name);
  graph_.values[id].name = name;
  taken_.emplace(name, 1);
}

std::vector<std::string> GraphBuilder::inputs_behind(ValueId id) const {
  std::vector<bool> seen(graph_.values.size(), false);
  std::vector<ValueId> work{id};
  while (!work.empty()) {
    const ValueId v = work.back();
    work.pop_back();
    if (seen[v]) continue;
    seen[v] = true;
    if (producers_[v] < 0) continue;
    for (ValueId in : graph_.nodes[producers_[v]].inputs) {
      if (in != kAbsent) work.push_back(in);
    }
  }
  std::vector<std::string> names;
  for (ValueId in : graph_.inputs) {
    if (seen[in]) names.push_back(graph_.value(in).name);
  }
  return names;
}

bool GraphBuilder::is_input(ValueId id) const { return std::ranges::find(graph_.inputs, id) != graph_.inputs.end(); }

graph::Graph GraphBuilder::finish(std::vector<ValueId> outputs) {
  graph_.outputs = std::move(outputs);
  return graph::compact(graph_);
}

}  // namespace tw::frontend
