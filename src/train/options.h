// What a training step is made of besides the model.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tw::train {

/// y is the model's one output [n, ..], means are over all elements of what is said.
enum class Loss : uint8_t {
  kCrossEntropy,        // y [n, classes, ..], labels i64 [n, ..]: mean of -log_softmax(y, axis 1) at the labels
  kMeanSquared,         // labels as y: mean of (y - labels)^2
  kBinaryCrossEntropy,  // labels as y, from 0 to 1: mean of log(1 + exp(y)) - y labels, that is, y are logits
  kOutput,              // y itself, of one element
};

/// How a parameter p follows its gradient g, with learning rate r. t counts steps from 1.
enum class Method : uint8_t {
  kSgd,    // g' = g + decay p;  v = momentum v + g';  p = p - r v. Without momentum there is no v
  kAdam,   // g' = g + decay p;  m = b1 m + (1 - b1) g';  v = b2 v + (1 - b2) g'^2;
           // p = p - r (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon). Kingma, Ba 2015
  kAdamW,  // as Adam with g' = g, and p = p - r decay p beside it. Loshchilov, Hutter 2019
};

struct Optimizer {
  Method method = Method::kAdamW;
  double momentum = 0;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

struct TrainOptions {
  Loss loss = Loss::kCrossEntropy;
  Optimizer optimizer = {};
  /// Names of the parameters that change, with * for any characters; the others stay constants.
  std::vector<std::string> trained = {"*"};
};

}  // namespace tw::train
