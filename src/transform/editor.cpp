#include "transform/editor.h"

#include <algorithm>

#include "support/error.h"

namespace tw::transform {

Editor::Editor(const graph::Graph& graph, const graph::OpTable& ops)
    : graph_(graph::compact(graph)),
      ops_(ops),
      producers_(graph_.producers()),
      readers_(graph_.consumers()),
      dead_(graph_.nodes.size(), false) {}

const Node* Editor::producer(ValueId id) const {
  if (id == kAbsent || producers_.at(id) < 0) return nullptr;
  return &graph_.nodes[producers_[id]];
}

const Node* Editor::producer(ValueId id, std::string_view op) const {
  const Node* node = producer(id);
  return node != nullptr && node->op == op ? node : nullptr;
}

size_t Editor::use_count(ValueId id) const { return readers_.at(id).size() + (graph_.is_output(id) ? 1 : 0); }

bool Editor::is_input(ValueId id) const { return std::ranges::find(graph_.inputs, id) != graph_.inputs.end(); }

graph::NameSet* Editor::names() {
  if (!names_) names_.emplace(graph_);  // most passes add nothing to most models
  return &*names_;
}

int Editor::append(Node node, const std::vector<TensorType>& types) {
  const std::vector<ValueId> outputs = graph_.add_node(std::move(node), types, names());
  const auto index = static_cast<int>(graph_.nodes.size()) - 1;
  producers_.resize(graph_.values.size(), -1);
  readers_.resize(graph_.values.size());
  dead_.push_back(false);
  for (const ValueId out : outputs) producers_[out] = index;
  for (const ValueId in : graph_.nodes[index].inputs) {
    if (in != kAbsent) readers_[in].push_back(index);
  }
  return index;
}

std::vector<ValueId> Editor::add_all(Node node) {
  const std::vector<TensorType> types = ops_.at(node.op).output_types(graph::make_call(graph_, node));
  return graph_.nodes[append(std::move(node), types)].outputs;
}

ValueId Editor::add(Node node) {
  const std::string op = node.op;
  const std::vector<ValueId> outputs = add_all(std::move(node));
  TW_CHECK(outputs.size() == 1, "operator '{}' has {} outputs", op, outputs.size());
  return outputs[0];
}

ValueId Editor::emit(std::string name, std::string op, std::vector<ValueId> inputs, graph::Attrs attrs) {
  return add({.op = std::move(op), .name = std::move(name), .attrs = std::move(attrs), .inputs = std::move(inputs)});
}

ValueId Editor::emit_slice(std::string name, ValueId x, Ints starts, const Shape& extents) {
  Attrs attrs{{"starts", std::move(starts)}, {"steps", Ints(extents.size(), 1)}, {"extents", extents}};
  return emit(std::move(name), "slice", {x}, std::move(attrs));
}

ValueId Editor::add_constant(const std::string& name, const TensorType& type, graph::Bytes bytes) {
  const ValueId id = graph_.add_constant(name, type, std::move(bytes), names());
  producers_.resize(graph_.values.size(), -1);
  readers_.resize(graph_.values.size());
  return id;
}

// A node none of whose outputs is used stops to read its inputs, and so on upwards.
void Editor::drop_if_unused(ValueId id) {
  std::vector<ValueId> work{id};
  while (!work.empty()) {
    const int n = producers_.at(work.back());
    work.pop_back();
    if (n < 0 || dead_[n]) continue;
    const Node& node = graph_.nodes[n];
    const bool used = std::ranges::any_of(node.outputs, [&](ValueId out) { return use_count(out) > 0; });
    if (used) continue;
    dead_[n] = true;
    for (const ValueId in : node.inputs) {
      if (in == kAbsent) continue;
      std::erase(readers_[in], n);
      work.push_back(in);
    }
  }
}

bool Editor::replace_output(ValueId from, ValueId to) {
  const bool fixed = is_input(to) || graph_.value(to).is_constant() || graph_.is_output(to);
  if (!fixed) {
    std::replace(graph_.outputs.begin(), graph_.outputs.end(), from, to);
    std::swap(graph_.values[from].name, graph_.values[to].name);
    return true;
  }
  const int n = producers_.at(from);
  const bool copies = n >= 0 && graph_.nodes[n].op == "identity" && graph_.nodes[n].inputs[0] == to;
  if (copies) return false;
  const int copy =
      append({.op = "identity", .name = graph_.value(from).name, .inputs = {to}}, {graph_.value(from).type});
  const ValueId out = graph_.nodes[copy].outputs[0];
  std::replace(graph_.outputs.begin(), graph_.outputs.end(), from, out);
  std::swap(graph_.values[from].name, graph_.values[out].name);
  return true;
}

bool Editor::replace(ValueId from, ValueId to) {
  if (from == to) return false;
  TW_CHECK(graph_.value(from).type == graph_.value(to).type, "'{}' ({}) cannot stand for '{}' ({})",
           graph_.value(to).name, to_string(graph_.value(to).type), graph_.value(from).name,
           to_string(graph_.value(from).type));
  bool changed = !readers_.at(from).empty();
  for (const int n : readers_[from]) {
    std::vector<ValueId>& inputs = graph_.nodes[n].inputs;
    std::replace(inputs.begin(), inputs.end(), from, to);
    readers_[to].push_back(n);
  }
  readers_[from].clear();
  if (graph_.is_output(from)) changed = replace_output(from, to) || changed;
  drop_if_unused(from);
  return changed;
}

graph::Graph Editor::finish() const { return graph::compact(graph_); }

}  // namespace tw::transform
