// The advice for a model with what it costs: predicted for all of it, measured for what is asked for.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "advise/advice.h"
#include "advise/predict.h"
#include "artefact/session.h"
#include "tilewright/progress.h"

namespace tw::cli {

struct AdviceRow {
  advise::Advice advice;
  advise::Cost cost;                  // of the changed model
  std::optional<double> slower = {};  // measured: how many times as long as the given model it takes
};

class AdviceTable {
 public:
  /// Imports the model, finds the advice for it and predicts what each costs. Advice whose changed model is none (a
  /// Reshape that names a number of channels) is left out, with a notice. `progress` must outlive it.
  AdviceTable(const std::string& model, const driver::CompileOptions& options, const advise::AdviceOptions& advice,
              uint64_t seed, Progress& progress);

  const std::vector<AdviceRow>& rows() const { return rows_; }
  const advise::Cost& cost() const { return cost_; }  // of the model as it is
  const targets::Target& target() const { return targets_.front(); }
  /// Why nothing is measured; empty: what is asked for is.
  const std::string& not_measured() const { return not_measured_; }
  /// The given model's time in ms; nothing before something is measured.
  const std::optional<double>& network_ms() const { return network_ms_; }
  /// What predictions are multiplied with, so that the given model's time is predicted right; 1 before it is measured.
  double scale() const;
  double predicted_ms(const advise::Cost& cost) const { return cost.us * scale() * 1e-3; }

  /// The advice that promises most, of each kind.
  std::vector<size_t> best_of_each_kind() const;
  /// Measures the changed model of each of these rows beside the given one, until somebody interrupts.
  void measure(std::span<const size_t> rows);

  /// The model with the changes of several rows. UsageError where they do not go together.
  struct Combined {
    frontend::EditableModel model;
    AdviceRow row;
  };
  Combined combine(std::span<const size_t> rows);

 private:
  graph::OpTable ops_;
  driver::CompileOptions options_;
  uint64_t seed_;
  Progress& progress_;
  std::vector<targets::Target> targets_;
  frontend::EditableModel model_;
  advise::Predictor predictor_;
  advise::Cost cost_;
  std::vector<AdviceRow> rows_;
  std::string not_measured_;
  std::optional<double> network_ms_;
  std::optional<artefact::Session> given_;  // the given model, ready to run

  static std::vector<targets::Target> one_target(driver::CompileOptions& options);
  void add_rows(const advise::AdviceOptions& advice);
  advise::Cost cost_of(const frontend::EditableModel& model);
  void find_device();
  artefact::Session start(const frontend::EditableModel& model) const;
  void start_given();
  void measure(const frontend::EditableModel& changed, AdviceRow& row);
};

}  // namespace tw::cli
