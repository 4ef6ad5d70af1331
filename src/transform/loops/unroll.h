// Loops (graph/repeat.h) as their turns, one after the other.
#pragma once
#include <functional>

#include "graph/repeat.h"

namespace tw::transform {

/// `graph` without the loops that `takes` names: each of their turns is nodes of its own, whose names end in the turn's
/// number. Loops within them are nodes of the graph then, and asked for, too.
graph::Graph unroll(const graph::Graph& graph, const graph::OpTable& ops,
                    const std::function<bool(const graph::Graph& graph, const graph::Node& loop)>& takes);

/// The body of a loop as an artefact can have it: no loop in it reads what this one carries from turn to turn.
graph::Graph placeable_body(const graph::Node& loop, const graph::OpTable& ops);

/// Without any loop.
graph::Graph unroll_all(const graph::Graph& graph, const graph::OpTable& ops);

}  // namespace tw::transform
