// What a model costs on a target, by the compiler's own choice and its own prediction: nothing is lowered or measured.
#pragma once
#include "driver/options.h"
#include "driver/tune/planner.h"

namespace tw::advise {

struct Cost {
  double us = 0;            // of all groups, as their constructors predict
  int64_t groups = 0;       // that have code
  int64_t unpredicted = 0;  // those of them for which there is no prediction: they count as nothing
  int64_t parameters = 0;   // elements of the model's constants
  double flop = 0;          // of its sums of products as the operators define them: 2 for each multiply and add
};

/// Predicts one model after the other; groups that they share are planned once.
class Predictor {
 public:
  /// `options` and `target` must outlive it.
  Predictor(const driver::CompileOptions& options, const targets::Target& target);
  Cost cost(const graph::Graph& model);

 private:
  const driver::CompileOptions& options_;
  const targets::Target& target_;
  graph::OpTable ops_;
  driver::Planner planner_;
};

}  // namespace tw::advise
