// Reads the text that graph::to_string prints: graphs of artefacts, to look into them, and what tw-opt and tests begin
// with.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace tw::graph {

/// Inverse of to_string; large constants are taken from `constants` (name -> bytes). Throws UserError with line and
/// column.
Graph parse_graph(std::string_view text, const std::map<std::string, Bytes>& constants);
/// The bytes of the large constant `declared`, in logical order; null when there are none.
using ConstantSource = std::function<Bytes(const Value& declared, const std::string& reference)>;
/// The same with the large constants from where `source` finds them, once their types and layouts are known.
Graph parse_graph_from(std::string_view text, const ConstantSource& source);

}  // namespace tw::graph
