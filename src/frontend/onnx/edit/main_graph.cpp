#include "frontend/onnx/edit/main_graph.h"

#include <algorithm>
#include <set>

#include "frontend/onnx/file/element_type.h"
#include "frontend/onnx/liveness.h"
#include "support/error.h"

namespace tw::frontend {
namespace {

// All names of a graph and of the graphs within it: a new one hides none of them.
void collect_names(const onnx::GraphProto& graph, std::unordered_set<std::string>& names) {
  for (const auto& tensor : graph.initializer()) names.insert(tensor.name());
  for (const auto& tensor : graph.sparse_initializer()) names.insert(tensor.values().name());
  for (const auto& input : graph.input()) names.insert(input.name());
  for (const auto& output : graph.output()) names.insert(output.name());
  for (const onnx::NodeProto& node : graph.node()) {
    names.insert(node.name());
    names.insert(node.output().begin(), node.output().end());
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) collect_names(attribute.g(), names);
      for (const auto& body : attribute.graphs()) collect_names(body, names);
    }
  }
}

bool writes(const onnx::NodeProto& node, const std::string& value) {
  return std::ranges::find(node.output(), value) != node.output().end();
}

}  // namespace

MainGraph::MainGraph(onnx::GraphProto& graph) : graph_(graph) {
  collect_names(graph, names_);
  for (onnx::NodeProto& node : *graph.mutable_node()) nodes_.push_back(std::move(node));
  graph.clear_node();
}

size_t MainGraph::writer(const std::string& value) const {
  const auto found = std::ranges::find_if(nodes_, [&](const onnx::NodeProto& n) { return writes(n, value); });
  if (found == nodes_.end())
    throw UserError("no node of the main graph computes '{}': values inside functions and subgraphs stay as they are",
                    value);
  return static_cast<size_t>(found - nodes_.begin());
}

onnx::TensorProto& MainGraph::initializer(const std::string& name) {
  auto& all = *graph_.mutable_initializer();
  const auto found = std::ranges::find(all, name, [](const onnx::TensorProto& t) { return t.name(); });
  if (found == all.end()) throw UserError("the main graph has no initializer '{}'", name);
  return *found;
}

std::vector<size_t> MainGraph::between(const std::string& source, const std::string& value) const {
  std::unordered_set<std::string> constants;
  for (const auto& tensor : graph_.initializer()) constants.insert(tensor.name());
  std::set<size_t> found;
  std::vector<std::string> open = {value};
  while (!open.empty()) {
    const std::string name = std::move(open.back());
    open.pop_back();
    if (name.empty() || name == source || constants.contains(name)) continue;
    const size_t n = writer(name);
    if (!found.insert(n).second) continue;
    open.insert(open.end(), nodes_[n].input().begin(), nodes_[n].input().end());
  }
  return {found.begin(), found.end()};
}

std::string MainGraph::free_name_of(const std::string& value) {
  onnx::NodeProto& node = nodes_[writer(value)];
  const std::string other = unique(value + ".before");
  std::ranges::replace(*node.mutable_output(), value, other);
  return other;
}

void MainGraph::insert_behind(size_t n, const std::vector<onnx::NodeProto>& nodes) {
  nodes_.insert(nodes_.begin() + static_cast<std::ptrdiff_t>(n) + 1, nodes.begin(), nodes.end());
}

std::string MainGraph::unique(const std::string& wanted) {
  std::string name = wanted;
  for (int suffix = 1; !names_.insert(name).second; ++suffix) name = fmt::format("{}_{}", wanted, suffix);
  return name;
}

std::string MainGraph::add_initializer(const std::string& wanted, const TensorType& type,
                                       std::span<const std::byte> elements) {
  onnx::TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(unique(wanted));
  tensor.set_data_type(onnx_type(type.type));
  for (const int64_t extent : type.shape) tensor.add_dims(extent);
  tensor.set_raw_data(elements.data(), elements.size());
  return tensor.name();
}

void MainGraph::finish() {
  NodeList all;
  for (onnx::NodeProto& node : nodes_) *all.Add() = std::move(node);
  std::unordered_set<std::string> needed;
  for (const auto& output : graph_.output()) needed.insert(output.name());
  const std::vector<bool> live = live_nodes(all, std::move(needed));
  for (int n = 0; n < all.size(); ++n) {
    if (live[static_cast<size_t>(n)]) *graph_.add_node() = std::move(all[n]);
  }
  graph_.clear_value_info();
}

}  // namespace tw::frontend
