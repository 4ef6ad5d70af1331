// Small networks with a loss, of any float type: what tests of gradients differentiate.
#pragma once
#include <vector>

#include "graph/op.h"

namespace tw::testing {

struct Network {
  graph::Graph graph;  // inputs: data and all parameters; output: the loss
  std::vector<graph::RefTensor> values;
};

/// Two linear layers with layer norm and GELU between, cross-entropy.
Network perceptron(DataType type);
/// Convolutions, batch normalization in training form, both kinds of pools, cross-entropy.
Network convolutions(DataType type);
/// Embeddings of tokens, causal attention of two heads with a residual and an RMS norm, tied weights of the scores.
Network attention(DataType type);
/// Attention of two heads whose queries, keys and values are parts of one product, queries and keys multiplied by
/// a number each, as torch exports it; mean squares of a layer norm.
Network parted_attention(DataType type, int64_t length, int64_t width);

}  // namespace tw::testing
