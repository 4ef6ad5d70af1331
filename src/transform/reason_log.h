// What passes decided about edges, values and products, and why: for `explain --why`. Kept by names, which later passes
// keep.
#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "support/why.h"
#include "transform/names.h"

namespace tw::transform {

/// Whether the nodes at the two ends of an edge share a kernel.
enum class EdgeFate : uint8_t { kFused, kApart };

/// Of the words about one edge or value the last one counts.
class ReasonLog {
 public:
  /// Of the edge from the node that computes `value` to its reader `reader`.
  void say(EdgeFate fate, const Graph& graph, ValueId value, const Node& reader, Why why) {
    edges_[{fate, {graph.value(value).name, graph.value(reader.outputs.at(0)).name}}] = std::move(why);
  }
  /// The same of each reader inside `reader` where that is a group.
  void say_of_group(EdgeFate fate, const Graph& graph, ValueId value, const Node& reader, const Why& why) {
    if (!reader.is_group()) return say(fate, graph, value, reader, why);
    for_each_reader(value, reader,
                    [&](ValueId inside, const Node& inner) { say(fate, *reader.body, inside, inner, why); });
  }
  /// Of the first reader inside; null where no pass said anything.
  const Why* find_of_group(EdgeFate fate, const Graph& graph, ValueId value, const Node& reader) const {
    if (!reader.is_group()) return find(fate, graph, value, reader);
    const Why* found = nullptr;
    for_each_reader(value, reader, [&](ValueId inside, const Node& inner) {
      if (found == nullptr) found = find(fate, *reader.body, inside, inner);
    });
    return found;
  }
  /// What became of a product that reads dequantized numbers, by its node's name.
  void say_product(const std::string& node, Why why) { products_[node] = std::move(why); }
  const std::map<std::string, Why>& products() const { return products_; }
  /// Why the value is stored as it is.
  void say_layout(const std::string& value, Why why) { layouts_[value] = std::move(why); }

  /// Null where no pass said anything.
  const Why* find(EdgeFate fate, const Graph& graph, ValueId value, const Node& reader) const {
    const auto found = edges_.find({fate, {graph.value(value).name, graph.value(reader.outputs.at(0)).name}});
    return found == edges_.end() ? nullptr : &found->second;
  }
  const Why* find_layout(const std::string& value) const {
    const auto found = layouts_.find(value);
    return found == layouts_.end() ? nullptr : &found->second;
  }

 private:
  static void for_each_reader(ValueId value, const Node& group, const auto& visit) {
    for (size_t i = 0; i < group.inputs.size(); ++i) {
      for (const Node& inner : group.body->nodes) {
        const bool reads = std::ranges::find(inner.inputs, group.body->inputs[i]) != inner.inputs.end();
        if (group.inputs[i] == value && reads) visit(group.body->inputs[i], inner);
      }
    }
  }

  using Ends = std::pair<std::string, std::string>;  // the value, and the first output of its reader
  std::map<std::pair<EdgeFate, Ends>, Why> edges_;
  std::map<std::string, Why> layouts_;
  std::map<std::string, Why> products_;
};

}  // namespace tw::transform
