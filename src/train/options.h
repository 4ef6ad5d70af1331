// What a training step is made of besides the model.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transform/train/recompute.h"

namespace tw::train {

/// y is the model's one output [n, ..], means are over all elements of what is said.
enum class Loss : uint8_t {
  kCrossEntropy,        // y [n, classes, ..], labels i64 [n, ..]: mean of -log_softmax(y, axis 1) at the labels
  kMeanSquared,         // labels as y: mean of (y - labels)^2
  kBinaryCrossEntropy,  // labels as y, from 0 to 1: mean of log(1 + exp(y)) - y labels, that is, y are logits
  kOutput,              // y itself, of one element
};

/// Of kCrossEntropy. With l = -log_softmax(y, axis 1) a label t counts (1 - smoothing) l[t] + smoothing mean(l).
/// Szegedy et al. 2016.
struct Classes {
  double smoothing = 0;
  /// A label that says nothing: the mean is over the others. Where there are none the loss is 0, and so are gradients.
  std::optional<int64_t> ignored = {};
};

/// How a parameter p follows its gradient g, with learning rate r. t counts steps from 1.
enum class Method : uint8_t {
  kSgd,    // g' = g + decay p;  v = momentum v + g';  p = p - r v. Without momentum there is no v
  kAdam,   // g' = g + decay p;  m = b1 m + (1 - b1) g';  v = b2 v + (1 - b2) g'^2;
           // p = p - r (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon). Kingma, Ba 2015
  kAdamW,  // as Adam with g' = g, and p = p - r decay p beside it. Loshchilov, Hutter 2019
  kLamb,   // as Adam with g' = g; u = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon) + decay p;
           // p = p - r (|p| / |u|) u with norms of the whole parameter, their ratio 1 where one of them is 0.
           // You et al. 2020, algorithm 2
};

struct Optimizer {
  Method method = Method::kAdamW;
  double momentum = 0;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

/// Small gradients are 0 in f16. So those of the loss times a scale are computed there, and divided by it in f32. The
/// scale is a state: it doubles after that many good steps one after the other, and halves where a gradient is not
/// finite. Micikevicius et al. 2018.
struct LossScale {
  double initial = 65536;
  int64_t good_steps = 2000;
};

/// What becomes of a step whose loss, gradients (sum of squares in f32) or learning rate are not finite.
enum class NotFinite : uint8_t {
  kSkipped,  // `loss` is NaN, `skipped_steps` counts it, and all other states but the loss scale stay as they were
  kUsed,     // nobody looks
};

/// What batch norms normalize by.
enum class Statistics : uint8_t {
  kOfBatch,  // mean and (biased) variance of the batch; the model's own are states that follow them
  kFrozen,   // the model's own, which stay constants
};

/// What becomes of the products of one activation with several parameters.
enum class Products : uint8_t {
  kMerged,  // they are one in both passes, of parameters that lie side by side
  kApart,
};

struct TrainOptions {
  Loss loss = Loss::kCrossEntropy;
  Optimizer optimizer = {};
  /// Names of the parameters that change, with * for any characters; the others stay constants. None: all change.
  std::vector<std::string> trained = {};
  Classes classes = {};
  /// Names, as above, of parameters that the weight decay leaves alone.
  std::vector<std::string> not_decayed = {};
  /// 0, or the most that the norm of all gradients together may be: they are times min(1, clip / (norm + 1e-6)).
  /// Pascanu et al. 2013, as torch.nn.utils.clip_grad_norm_ has it.
  double clip_norm = 0;
  std::optional<LossScale> scale = {};
  NotFinite not_finite = NotFinite::kSkipped;
  Statistics statistics = Statistics::kOfBatch;
  Products products = Products::kMerged;
  /// After how many runs the parameters change, by the mean of the gradients of these. Their sums are states.
  int64_t runs_of_step = 1;
  /// 0, or the share that an average of each parameter keeps of itself in a step: a = average a + (1 - average) p.
  /// Evaluation takes the averages.
  double average = 0;
  /// What gradients compute again instead of keeping it, in "step" and "grads".
  transform::Recompute recompute = {};
};

/// Whether one of the patterns, with * for any characters, is the name.
bool is_one_of(const std::string& name, const std::vector<std::string>& patterns);

}  // namespace tw::train
