// Losses as nodes behind a model's output.
#pragma once
#include "graph/gradient.h"
#include "train/options.h"

namespace tw::train {

/// The type of `labels` for an output of type `y`. Throws UserError where the loss does not fit it, or the output has
/// no elements; `y_name` is for that.
TensorType labels_type(Loss loss, const TensorType& y, const std::string& y_name);

/// The loss as f32[]; `labels` is nothing for kOutput. Sums are f32. A label that is no class makes it NaN, besides the
/// error that check-indices makes of it.
graph::Term loss_of(const TrainOptions& options, const graph::Term& y, const graph::Term& labels);

}  // namespace tw::train
