#include "train/loss.h"

#include <limits>

#include "support/error.h"
#include "support/join.h"

namespace tw::train {
namespace {

using graph::Term;

Term over_all(std::string_view reduction, const Term& x) {
  std::vector<int64_t> axes = sequence(x.rank());
  if (axes.empty()) return x;
  return graph::reshape(graph::emit(reduction, {x}, {{"axes", axes}, {"keepdims", int64_t{1}}}), {});
}
Term mean_of_all(const Term& x) { return over_all("reduce_mean", x); }

// Cross-entropy, label by label: [n, 1, ..], where `logs` are of [n, classes, ..].
class CrossEntropy {
 public:
  CrossEntropy(const Classes& options, const Term& y, const Term& labels)
      : options_(options), logs_(graph::emit("log_softmax", {y}, {{"axis", int64_t{1}}})) {
    Shape shape = y.shape();
    classes_ = shape[1];
    shape[1] = 1;
    labels_ = graph::reshape(labels, shape);
    if (options.ignored) {
      ignored_ = graph::compare("equal", labels_, static_cast<double>(*options.ignored));
      labels_ = graph::where(ignored_, 0, labels_);
    }
    known_ = graph::emit("and", {graph::compare("greater_equal", labels_, 0),
                                 graph::compare("less", labels_, static_cast<double>(classes_))});
  }

  Term loss() const {
    const Term losses = graph::where(known_, of_labels(), std::numeric_limits<double>::quiet_NaN());
    if (!ignored_) return mean_of_all(losses);
    const Term counted = graph::where(ignored_, losses.number(0), 1);
    const Term sum = over_all("reduce_sum", graph::where(ignored_, 0, losses));
    const Term count = over_all("reduce_sum", counted);
    return sum / graph::emit("max", {count, count.number(1)});
  }

 private:
  // An index below 0 would count from the last class: it becomes one that check-indices finds, too.
  Term of_labels() const {
    const Term index = graph::where(known_, labels_, static_cast<double>(classes_));
    const Term at = graph::emit("gather_elements", {logs_, index}, {{"axis", int64_t{1}}});
    if (options_.smoothing == 0) return -at;
    return -(at * (1 - options_.smoothing) + graph::mean(logs_, {1}) * options_.smoothing);
  }

  const Classes& options_;
  Term logs_, labels_, ignored_, known_;
  int64_t classes_ = 0;
};

}  // namespace

TensorType labels_type(Loss loss, const TensorType& y, const std::string& y_name) {
  if (!y.type.is_float()) throw UserError("the loss needs an output of floats; '{}' is {}", y_name, to_string(y));
  if (y.elements() == 0)
    throw UserError(
        "the loss of an empty batch: '{}' is {}; compile the step for a batch of 1 or more (--shape, --dim)", y_name,
        to_string(y));
  if (loss != Loss::kCrossEntropy) return {DataType::f32(), y.shape};
  if (y.shape.size() < 2)
    throw UserError("cross_entropy needs an output [n, classes, ..]; '{}' is {}", y_name, to_string(y));
  Shape shape = y.shape;
  shape.erase(shape.begin() + 1);
  return {DataType::i64(), shape};
}

Term loss_of(const TrainOptions& options, const Term& y, const Term& labels) {
  const Term wide = graph::widened(y);
  if (options.loss == Loss::kCrossEntropy) return CrossEntropy(options.classes, wide, labels).loss();
  if (options.loss == Loss::kBinaryCrossEntropy) return mean_of_all(graph::emit("softplus", {wide}) - wide * labels);
  if (options.loss == Loss::kOutput) return graph::reshape(wide, {});
  const Term off = wide - labels;
  return mean_of_all(off * off);
}

}  // namespace tw::train
