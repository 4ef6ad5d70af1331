// Canonicalization rules: each looks at one node and, where it applies, replaces the node's result by something simpler
// of the same value.
#pragma once
#include <span>
#include <string_view>

#include "transform/editor.h"

namespace tw::transform {

struct Rule {
  std::string_view name;
  std::string_view op;  // of the nodes it looks at; empty: all
  /// Whether it changed the graph.
  bool (*apply)(Editor& editor, const Node& node);
};

/// No-ops out, chains of data movement merged (rules_movement.cpp).
std::span<const Rule> movement_rules();
/// Data movement in one order (rules_order.cpp).
std::span<const Rule> order_rules();
/// Powers, divisions, variances and neutral elements (rules_arithmetic.cpp).
std::span<const Rule> arithmetic_rules();
/// Several nodes that spell out one operator (rules_patterns.cpp).
std::span<const Rule> pattern_rules();
/// GELU by erf or tanh as products and sums (rules_gelu.cpp).
std::span<const Rule> gelu_rules();
/// Convolutions and pooling (rules_windows.cpp).
std::span<const Rule> window_rules();

/// Applies rules to all nodes, those too that they add, until nothing changes.
void apply_to_all(Editor& editor, std::span<const std::span<const Rule>> all);

/// Applies those of `rules` that look at node `n`, as long as it is live; whether they changed the graph.
bool apply_rules(Editor& editor, std::span<const Rule> rules, size_t n);

}  // namespace tw::transform
