// What the kernels of an encoder layer are called in Ivanov et al., Data Movement Is All You Need, 2021 (section IV-A,
// table III), by what is computed in them.
#pragma once
#include <string>

#include "graph/graph.h"

namespace tw::train {

/// The name of the kernel of `group`, a node of `graph`: by its operators and the shapes that they read, never by names
/// in the graph. Where the paper has none for that, what is computed, joined by '+': "residual+bias-gradient". Empty
/// for groups that only move elements, for contractions, and for numbers.
std::string kernel_name(const graph::Graph& graph, const graph::Node& group);

}  // namespace tw::train
