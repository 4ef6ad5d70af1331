#include "tilewright/train/train_options.h"

#include <algorithm>

#include "driver/compile.h"
#include "support/error.h"

namespace tw::cli {
namespace {

// An option that was given though nothing would come of it.
struct Misplaced {
  bool is_so;
  std::string_view option, is_for;
};

void check_places(const VerbOptions& options) {
  const train::TrainOptions& t = options.training;
  const train::Optimizer& o = t.optimizer;
  const train::Optimizer usual;
  const train::LossScale scale;
  const bool sgd = o.method == train::Method::kSgd, classes = t.loss == train::Loss::kCrossEntropy;
  const bool f16 = options.compile.dtype == DataType::f16();
  const bool scales = options.loss_scale.initial != scale.initial || options.loss_scale.good_steps != scale.good_steps;
  const Misplaced all[] = {
      {!sgd && o.momentum != 0, "--momentum", "--optimizer sgd; the others have moments of their own"},
      {sgd && o.beta1 != usual.beta1, "--beta1", "--optimizer adam, adamw or lamb"},
      {sgd && o.beta2 != usual.beta2, "--beta2", "--optimizer adam, adamw or lamb"},
      {sgd && o.epsilon != usual.epsilon, "--epsilon", "--optimizer adam, adamw or lamb"},
      {o.weight_decay == 0 && !t.not_decayed.empty(), "--no-decay", "--weight-decay of more than 0"},
      {!classes && t.classes.smoothing != 0, "--label-smoothing", "--loss cross_entropy"},
      {!classes && options.ignore_index != kNoLabel, "--ignore-index", "--loss cross_entropy"},
      {!f16 && scales, "--loss-scale", "--dtype f16; bf16 and f32 have small numbers enough"},
      {f16 && options.no_skip, "--no-skip", "--dtype bf16 and f32; the loss scale of f16 is found by steps left out"}};
  for (const Misplaced& m : all) {
    if (m.is_so) throw UsageError("{} is for {}", m.option, m.is_for);
  }
}

bool leaves_out(const driver::CompileOptions& options, std::string_view pass) {
  return options.all_optional_off || std::ranges::count(options.disabled_passes, pass) != 0;
}

}  // namespace

train::TrainOptions train_options(const VerbOptions& options) {
  check_places(options);
  train::TrainOptions chosen = options.training;
  if (options.ignore_index != kNoLabel) chosen.classes.ignored = options.ignore_index;
  if (options.compile.dtype == DataType::f16()) chosen.scale = options.loss_scale;
  if (options.no_skip) chosen.not_finite = train::NotFinite::kUsed;
  if (options.frozen_statistics) chosen.statistics = train::Statistics::kFrozen;
  if (leaves_out(options.compile, "merge-products")) chosen.products = train::Products::kApart;
  return chosen;
}

std::vector<frontend::ImportResult> import_for_training(const std::string& model, driver::CompileOptions compile) {
  if (!compile.least.empty()) throw UsageError("--dim: a training has no ranges; list the sizes, such as 16,32,64");
  for (frontend::ImportOptions& import : compile.imports) import.purpose = frontend::Purpose::kTraining;
  return driver::import_file(model, compile);
}

std::string_view name_of(train::Loss loss) {
  constexpr std::string_view kNames[] = {"cross_entropy", "mse", "bce", "output"};
  return kNames[static_cast<size_t>(loss)];
}

std::string_view name_of(train::Method method) {
  constexpr std::string_view kNames[] = {"sgd", "adam", "adamw", "lamb"};
  return kNames[static_cast<size_t>(method)];
}

}  // namespace tw::cli
