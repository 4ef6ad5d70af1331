// What tests of graph passes share: text to graph, evaluation on random inputs, comparison of graphs by what they
// compute.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "graph/op.h"
#include "transform/pass.h"

namespace tw::testing {

/// The operator table and a CPU target.
const transform::TransformContext& context();

/// A verified graph. Constants too large for text are not available.
graph::Graph parse(const std::string& text);

/// The pass alone, verified.
graph::Graph run_pass(const graph::Graph& graph, std::string_view pass);
/// The text of a graph after the pass.
std::string after(const std::string& text, std::string_view pass);

/// Random inputs of a graph: floats in [-1, 1] that are multiples of 1/64, small integers.
std::vector<graph::RefTensor> random_inputs(const graph::Graph& graph, uint64_t seed);
/// The outputs of a graph, nothing rounded.
std::vector<graph::RefTensor> outputs_of(const graph::Graph& graph, const std::vector<graph::RefTensor>& inputs);

/// Fails unless both graphs have equal input and output names and types and compute the same on random inputs: exactly
/// for tolerance 0, else within tolerance * (1 + |element|) ; NaN equals NaN.
void expect_same_function(const graph::Graph& before, const graph::Graph& after, double tolerance, uint64_t seed = 1);

/// The same on random inputs of which a few elements of floats are NaN, infinite, or far larger than the others.
void expect_same_special_values(const graph::Graph& before, const graph::Graph& after, double tolerance);

/// The graph with every f32 value as f64 (casts too), so that passes that reassociate can be held to tight bounds.
graph::Graph widen(const graph::Graph& graph);

/// Number of nodes of an operator, inside groups too.
int count_nodes(const graph::Graph& graph, std::string_view op);

/// A random graph of small f64 tensors over all kinds of operators: element-wise with broadcasting, constants,
/// movement, reductions, normalizations, matmul, convolutions and pooling; several outputs.
graph::Graph random_graph(uint64_t seed);

}  // namespace tw::testing
