#include "train/loss.h"

#include <numeric>

#include "support/error.h"

namespace tw::train {
namespace {

using graph::Term;

Term mean_of_all(const Term& x) {
  std::vector<int64_t> axes(x.rank());
  std::iota(axes.begin(), axes.end(), int64_t{0});
  return graph::reshape(axes.empty() ? x : graph::mean(x, axes), {});
}

// -log_softmax(y, axis 1) at the labels.
Term cross_entropy(const Term& y, const Term& labels) {
  Shape picked = y.shape();
  picked[1] = 1;
  const Term logs = graph::emit("log_softmax", {y}, {{"axis", int64_t{1}}});
  const Term at_labels = graph::emit("gather_elements", {logs, graph::reshape(labels, picked)}, {{"axis", int64_t{1}}});
  return -mean_of_all(at_labels);
}

}  // namespace

TensorType labels_type(Loss loss, const TensorType& y, const std::string& y_name) {
  if (!y.type.is_float()) throw UserError("the loss needs an output of floats; '{}' is {}", y_name, to_string(y));
  if (loss != Loss::kCrossEntropy) return {DataType::f32(), y.shape};
  if (y.shape.size() < 2)
    throw UserError("cross_entropy needs an output [n, classes, ..]; '{}' is {}", y_name, to_string(y));
  Shape shape = y.shape;
  shape.erase(shape.begin() + 1);
  return {DataType::i64(), shape};
}

Term loss_of(Loss loss, const Term& y, const Term& labels) {
  const Term wide = graph::widened(y);
  if (loss == Loss::kCrossEntropy) return cross_entropy(wide, labels);
  if (loss == Loss::kBinaryCrossEntropy) return mean_of_all(graph::emit("softplus", {wide}) - wide * labels);
  if (loss == Loss::kOutput) return graph::reshape(wide, {});
  const Term off = wide - labels;
  return mean_of_all(off * off);
}

}  // namespace tw::train
