// Batch norms in training mode.
#pragma once
#include <vector>

#include "graph/gradient.h"

namespace tw::train {

/// Exporters make one of equal tensors, so that of a fresh norm its scale and its variance, all ones, are one: means
/// and variances that others read, too, become constants of their own.
void part_statistics(graph::Graph& graph);

/// Means and variances that batch norms of `graph` were given as constants: they follow data, not gradients. Each once.
std::vector<graph::ValueId> running_statistics(const graph::Graph& graph);

/// A statistic that a model keeps, and what a step makes of it.
struct Followed {
  graph::ValueId running, next;
};
/// Lets each batch norm of `graph` whose mean and variance are among `running` normalize by those of its batch, over
/// all axes but 1, in f32. A statistic s of batches b follows as s momentum + b (1 - momentum), where momentum is the
/// node's and variances are biased: ONNX's BatchNormalization with training_mode 1. One that several nodes share
/// follows one after the other. Throws UserError where a channel has but one element in the batch, whose variance says
/// nothing.
std::vector<Followed> use_batch_statistics(graph::Graph& graph, const graph::OpTable& ops,
                                           const std::vector<graph::ValueId>& running);

}  // namespace tw::train
