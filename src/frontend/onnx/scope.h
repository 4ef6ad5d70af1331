// What the names of a graph, subgraph or function body stand for while it is imported.
#pragma once
#include <onnx-ml.pb.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "graph/graph.h"

namespace tw::frontend {

/// A name's value; `unsupported` when it comes from a node that could not be imported (reported at the end).
struct Binding {
  graph::ValueId id = graph::kAbsent;
  bool unsupported = false;
};

/// Opset version of each domain; the default domain is "".
using Opsets = std::map<std::string, int64_t>;

/// "ai.onnx" is another name of the default domain.
inline std::string canonical_domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

struct NameScope {
  const NameScope* parent = nullptr;  // enclosing graph, whose names are visible; null for the main graph and functions
  std::string prefix;                 // of value and node names made here: "" or "caller/"
  const Opsets* opsets = nullptr;
  std::map<std::string, const onnx::AttributeProto*> attributes;  // of the function call, by formal name
  int depth = 0;
  /// Of a loop's body, which is a graph of its own: the value inside that stands for one of the graph around.
  std::function<graph::ValueId(graph::ValueId)> captured = {};
  std::unordered_map<std::string, Binding> names;

  /// The binding of `name` here or outside; nothing when there is none.
  std::optional<Binding> find(const std::string& name) const {
    if (const auto it = names.find(name); it != names.end()) return it->second;
    std::optional<Binding> found = parent == nullptr ? std::nullopt : parent->find(name);
    if (found && captured && !found->unsupported && found->id != graph::kAbsent) found->id = captured(found->id);
    return found;
  }
};

}  // namespace tw::frontend
