// States: inputs and outputs of a model that its artefact keeps from one run to the next.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "driver/options.h"
#include "graph/graph.h"
#include "runtime/format/manifest.h"
#include "transform/in_place.h"

namespace tw::driver {

/// The graph with the inputs and outputs of `states` behind the others, in that order; those that grow have one
/// capacity now (transform/rewrite/append_states.h). Throws UsageError where one is not there, is named twice, or
/// differs in type from the other of its pair or from its initial value.
graph::Graph with_states_last(const graph::Graph& graph, std::span<const StatePair> states);

/// Their names, for the passes.
std::vector<transform::StateNames> names_of(std::span<const StatePair> states);

/// Their places, when they are the last inputs of `graph`.
std::vector<format::State> place_states(const graph::Graph& graph, std::span<const StatePair> states);

/// The section "states": empty when all begin with zeros.
std::vector<uint8_t> initial_values(std::span<const format::State> placed, std::span<const StatePair> states);

}  // namespace tw::driver
