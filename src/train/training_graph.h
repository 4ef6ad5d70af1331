// What trains a model as functions of one artefact. The step is one graph of forward pass, loss, gradients and
// optimizer, so that all of them are planned together (Ivanov et al., Data Movement Is All You Need, 2021, section 2).
#pragma once
#include <string>
#include <vector>

#include "driver/function_graph.h"
#include "driver/options.h"
#include "frontend/onnx/imported.h"
#include "train/options.h"

namespace tw::train {

/// Functions on the same states. All take the model's inputs and `labels` (but for kOutput), and give `loss` f32[]:
///  - "step" takes `learning_rate` f32[], too, and changes the states: every parameter NAME becomes NAME.next. Beside
///    it are NAME.m and NAME.v of the optimizer, NAME.sum of several runs, NAME.average; running means and variances of
///    batch norms; `step`, `run_of_step`, `loss_scale`, `good_steps`, `skipped_steps`, as the options want them;
///  - "grads" gives NAME.grad of each parameter behind the loss, of the parameter's type, and changes no state;
///  - "eval" gives the model's output and, behind it, the loss (alone where that is the output), and changes no state.
///    It takes averages and running statistics where there are some.
/// Where the model has dropouts or draws noise, "step" and "grads" take `seed` i64[] and draw at the number of the
/// state `runs` i64[], which "step" counts in each run, be it used or not; "eval" drops nothing. States that a function
/// reads are inputs of its graph behind the others. Parameters whose products share an activation are parts of one
/// (train/stacked.h), and so is what is beside them; all have their names for who sees them.
struct Training {
  std::vector<driver::FunctionGraph> functions;
  std::vector<driver::StatePair> states;  // with the values that they begin with
  std::vector<std::string> parameters;    // which of the states, or of their parts, are
  std::vector<std::string> masks;         // initializers that look like parameters and are none
  std::vector<std::string> averages;      // the states that "eval" takes for its parameters, or none
  transform::Recomputed recomputed = {};  // by the first step
};

/// Names of the states as callers see them.
std::vector<std::string> seen_names(const std::vector<driver::StatePair>& states);

/// Of one or several combinations of input shapes of a model, each of which is one more graph of each function. Throws
/// UserError, naming the model's outputs or parameters, where the loss does not fit the output or no parameter is
/// trained, and Unsupported naming all operators on the way that have no gradient.
Training make_training(const std::vector<frontend::ImportResult>& models, const graph::OpTable& ops,
                       const TrainOptions& options);
Training make_training(const frontend::ImportResult& model, const graph::OpTable& ops, const TrainOptions& options);

}  // namespace tw::train
