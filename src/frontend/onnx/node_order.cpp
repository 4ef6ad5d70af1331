#include <fmt/ranges.h>

#include <algorithm>
#include <queue>
#include <unordered_set>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/limits.h"

namespace tw::frontend {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
using Names = std::unordered_set<std::string>;

void add_reads(const onnx::NodeProto& node, Names& reads, int depth);

// What a subgraph takes from outside: all that it reads and does not define itself.
void add_captured(const onnx::GraphProto& graph, Names& reads, int depth) {
  Names inside, defined;
  for (const auto& node : graph.node()) {
    add_reads(node, inside, depth);
    defined.insert(node.output().begin(), node.output().end());
  }
  for (const auto& output : graph.output()) inside.insert(output.name());
  for (const auto& input : graph.input()) defined.insert(input.name());
  for (const auto& tensor : graph.initializer()) defined.insert(tensor.name());
  for (const std::string& name : inside) {
    if (!defined.contains(name)) reads.insert(name);
  }
}

// Deeper than kMaxDepth the model is refused when it is imported.
void add_reads(const onnx::NodeProto& node, Names& reads, int depth) {
  reads.insert(node.input().begin(), node.input().end());
  if (depth > kMaxDepth) return;
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_g()) add_captured(attribute.g(), reads, depth + 1);
    for (const auto& graph : attribute.graphs()) add_captured(graph, reads, depth + 1);
  }
}

// For each node those of the list that it reads from.
std::vector<std::vector<int>> sources_of(const Nodes& nodes) {
  std::unordered_map<std::string, int> writers;
  for (int i = 0; i < nodes.size(); ++i) {
    for (const std::string& output : nodes[i].output()) {
      if (!output.empty()) writers.emplace(output, i);
    }
  }
  std::vector<std::vector<int>> sources(nodes.size());
  for (int i = 0; i < nodes.size(); ++i) {
    Names reads;
    add_reads(nodes[i], reads, 0);
    for (const std::string& name : reads) {
      if (const auto writer = writers.find(name); writer != writers.end()) sources[i].push_back(writer->second);
    }
    std::ranges::sort(sources[i]);
  }
  return sources;
}

std::string label(const onnx::NodeProto& node) {
  const std::string& name = node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name();
  return fmt::format("'{}' ({})", name, node.op_type());
}

// Each node that is left waits for another one that is left: whoever goes from one to the next comes round.
[[noreturn]] void refuse_cycle(const Nodes& nodes, const std::vector<std::vector<int>>& sources,
                               const std::vector<bool>& placed) {
  int at = static_cast<int>(std::ranges::find(placed, false) - placed.begin());
  std::vector<int> path;
  while (std::ranges::find(path, at) == path.end()) {
    path.push_back(at);
    at = *std::ranges::find_if(sources[at], [&](int source) { return !placed[source]; });
  }
  std::vector<std::string> names;
  for (auto it = std::ranges::find(path, at); it != path.end() && names.size() < kMaxListedNodes; ++it)
    names.push_back(label(nodes[*it]));
  throw UserError("nodes need each other's outputs, so that none of them can be first: {}", fmt::join(names, ", "));
}

// Of the nodes that wait for nothing the first one in the list is next.
std::vector<int> sorted_order(const Nodes& nodes, const std::vector<std::vector<int>>& sources) {
  std::vector<std::vector<int>> readers(sources.size());
  std::vector<size_t> waits(sources.size());
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < nodes.size(); ++i) {
    for (const int source : sources[i]) readers[source].push_back(i);
    waits[i] = sources[i].size();
    if (waits[i] == 0) ready.push(i);
  }
  std::vector<int> order;
  std::vector<bool> placed(sources.size(), false);
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    placed[order.back()] = true;
    for (const int reader : readers[order.back()]) {
      if (--waits[reader] == 0) ready.push(reader);
    }
  }
  if (order.size() < sources.size()) refuse_cycle(nodes, sources, placed);
  return order;
}

class Sorter {
 public:
  void sort_graph(onnx::GraphProto& graph, int depth) {
    sort(*graph.mutable_node(), fmt::format("graph '{}'", graph.name()), depth);
  }

  void sort(Nodes& nodes, const std::string& what, int depth) {
    if (depth > kMaxDepth) return;
    for (auto& node : nodes) {
      for (auto& attribute : *node.mutable_attribute()) {
        if (attribute.has_g()) sort_graph(*attribute.mutable_g(), depth + 1);
        for (auto& graph : *attribute.mutable_graphs()) sort_graph(graph, depth + 1);
      }
    }
    const std::vector<std::vector<int>> sources = sources_of(nodes);
    size_t early = 0;
    while (early < sources.size() && (sources[early].empty() || sources[early].back() < static_cast<int>(early)))
      ++early;
    if (early == sources.size()) return;
    const std::vector<int> order = sorted_order(nodes, sources);
    warnings_.push_back(fmt::format("{}: its nodes are not in the order of what they read, from node {} on: sorted",
                                    what, label(nodes[static_cast<int>(early)])));
    Nodes sorted;
    for (const int i : order) sorted.Add()->Swap(nodes.Mutable(i));
    nodes.Swap(&sorted);
  }

  std::vector<std::string> take_warnings() { return std::move(warnings_); }

 private:
  std::vector<std::string> warnings_;
};

}  // namespace

std::vector<std::string> sort_nodes(onnx::ModelProto& model) {
  Sorter sorter;
  sorter.sort_graph(*model.mutable_graph(), 0);
  for (auto& function : *model.mutable_functions())
    sorter.sort(*function.mutable_node(), fmt::format("function '{}'", function.name()), 0);
  return sorter.take_warnings();
}

}  // namespace tw::frontend
