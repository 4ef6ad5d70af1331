// States: inputs and outputs of a model that its artefact keeps from one run to the next.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "driver/options.h"
#include "frontend/onnx/import.h"
#include "graph/graph.h"
#include "runtime/format/manifest.h"
#include "transform/in_place.h"

namespace tw::driver {

/// The graph with the inputs and outputs of `states` behind the others, in that order; those that grow have one
/// capacity now (transform/rewrite/append_states.cpp), and those that take rows the type `dtype` where that is one of
/// 16 bits (transform/rewrite/narrow_states.cpp). Throws UsageError where one is not there, is named twice, or differs
/// in type from the other of its pair or from its initial value.
graph::Graph with_states_last(const graph::Graph& graph, std::span<const StatePair> states, DataType dtype);

/// The same for a function that need not have all states, and of those that it has not their next values.
graph::Graph with_its_states_last(const graph::Graph& graph, std::span<const StatePair> states, DataType dtype);

/// Their names, for the passes.
std::vector<transform::StateNames> names_of(std::span<const StatePair> states);
/// Of those that `graph` has; without the next value where it has not that.
std::vector<transform::StateNames> states_in(const graph::Graph& graph, std::span<const StatePair> states);

/// How states are stored, by their inputs: the first entry of an artefact that is compiled decides for all of them.
using StateLayouts = std::map<std::string, Layout>;

/// Of those that have parts: rows.
StateLayouts layouts_of_stacked(std::span<const StatePair> states);

/// Their places, when all are the last inputs of `graph`; stored row by row where `layouts` has nothing.
std::vector<format::State> place_states(const graph::Graph& graph, std::span<const StatePair> states,
                                        const StateLayouts& layouts = {});

/// The section "states": empty when all begin with zeros. What is placed in 16 bits has the type `dtype`.
std::vector<uint8_t> initial_values(std::span<const format::State> placed, std::span<const StatePair> states,
                                    const StateLayouts& layouts, DataType dtype);

/// States of `states` that grow (transform/rewrite/append_states.cpp) stand for shorter ones: the model, imported as
/// `import` says, must not compute with their length. Imports it with one row more and compares: the same nodes, other
/// extents, constants that only become longer. Throws Unsupported naming the first node or constant that differs.
/// Models without a skeleton are not compared.
void check_lengths(const frontend::ImportResult& model, const frontend::ImportOptions& import,
                   std::span<const StatePair> states);

}  // namespace tw::driver
