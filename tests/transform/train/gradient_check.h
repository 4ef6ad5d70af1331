// Gradients against central finite differences, in f64 through the reference evaluator.
#pragma once
#include <random>
#include <string>
#include <vector>

#include "graph/op.h"

namespace tw::testing {

const graph::OpTable& operators();

TensorType f64(Shape shape);
TensorType i64(Shape shape);
TensorType boolean(Shape shape);
/// Marks an optional input that is not given.
TensorType absent();

/// Values of random inputs: floats uniform, integers and bools too (both ends included).
struct Range {
  double low = -2, high = 2;
};
graph::RefTensor random_tensor(const TensorType& type, Range range, std::mt19937_64& random);
/// A constant of that value.
graph::ValueId add_constant(graph::Graph& graph, const graph::RefTensor& elements);
/// The first result of a node.
graph::ValueId add_node(graph::Graph& graph, const std::string& op, std::vector<graph::ValueId> inputs,
                        graph::Attrs attrs = {});

/// Differentiates a loss that weights every element of all float outputs of `graph` by a random number, for all its
/// float inputs, and fails unless
/// - each element of each gradient is the central difference of the loss, within tolerance * (1 + |gradient|),
/// - no node was appended that no gradient needs,
/// - the whole graph has a te program, which computes the same gradients.
void check_gradients(const graph::Graph& graph, const std::vector<graph::RefTensor>& inputs, double tolerance = 1e-6);

/// One operator.
struct Case {
  std::string op;
  std::vector<TensorType> inputs;
  graph::Attrs attrs = {};
  std::vector<Range> ranges = {};  // by input; the last one (or the default) for the rest
};
/// check_gradients on random inputs: of every input alone and of all together, and with one value as each two inputs of
/// one type and range.
void check_case(const Case& c);

}  // namespace tw::testing
