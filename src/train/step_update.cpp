#include "train/step_update.h"

#include <limits>

#include "support/join.h"
#include "train/loss_scale.h"
#include "train/optimizer.h"

namespace tw::train {
namespace {

using graph::kAbsent;
using graph::Term;
using graph::Terms;
using graph::ValueId;

// Either may be nothing: true.
Term both(const Term& a, const Term& b) { return !a ? b : !b ? a : graph::emit("and", {a, b}); }

constexpr double kNormEpsilon = 1e-6;  // torch's

Term clip_factor(double clip, const Term& squares) {
  const Term ratio = graph::emit("reciprocal", {graph::emit("sqrt", {squares}) + kNormEpsilon}) * clip;
  return graph::emit("min", {ratio, ratio.number(1)});
}

// The states beside a parameter by the suffix of their names: the optimizer's, "sum" of several runs, "average".
std::vector<std::string> states_of_parameter(const TrainOptions& options) {
  std::vector<std::string> suffixes = kept_by(options.optimizer);
  if (options.runs_of_step > 1) suffixes.emplace_back("sum");
  if (options.average > 0) suffixes.emplace_back("average");
  return suffixes;
}

// First come all inputs, then what is computed of them.
class UpdateMaker {
 public:
  UpdateMaker(const TrainedModel& model, const TrainOptions& options, const StepParts& parts, StepStates& states)
      : model_(model), options_(options), parts_(parts), states_(states) {}

  void add_states() {
    for (size_t p = 0; p < model_.parameters.size(); ++p) add_states_of(p);
    for (size_t s = 0; s < model_.statistics.size(); ++s)
      states_.adopt(model_.statistics[s], model_.initial_statistics[s]);
    if (counts_steps(options_.optimizer)) step_ = states_.add("step");
    if (options_.runs_of_step > 1) run_ = states_.add("run_of_step");
    if (options_.scale) good_steps_ = states_.add("good_steps");
    if (skips()) skipped_ = states_.add(kSkippedSteps);
  }

  const std::vector<ValueId>& averages() { return beside_["average"]; }

  Term run(graph::GradientBuilder& builder) {
    builder_ = &builder;
    Terms gradients = mapped(parts_.gradients, [&](ValueId id) { return term(id); });
    const Terms sums = add_up(gradients);
    const Term squares = skips() || options_.clip_norm > 0 ? sum_of_squares(gradients) : Term{};
    if (skips()) good_ = is_finite(squares + term(model_.loss) + term(parts_.rate));
    if (run_ != kAbsent) full_ = graph::compare("greater_equal", term(run_) + 1, as_number(options_.runs_of_step));
    const Term clip = options_.clip_norm > 0 ? clip_factor(options_.clip_norm, squares) : Term{};
    const Term step = step_ == kAbsent ? Term{} : term(step_) + 1;
    for (size_t p = 0; p < gradients.size(); ++p) update(p, clip ? gradients[p] * clip : gradients[p], step);
    if (step) leave_if_changed(step_, step);
    leave_sums(sums);
    for (const Followed& s : parts_.statistics) leave_if(good_, s.running, term(s.next));
    leave_scale();
    if (!good_) return term(model_.loss);
    states_.leave(skipped_, graph::where(good_, term(skipped_), term(skipped_) + 1));
    return graph::where(good_, term(model_.loss), std::numeric_limits<double>::quiet_NaN());
  }

 private:
  static double as_number(int64_t count) { return static_cast<double>(count); }
  bool skips() const { return options_.not_finite == NotFinite::kSkipped; }
  Term term(ValueId id) { return builder_->term(id); }

  void add_states_of(size_t p) {
    const graph::Value value = model_.graph.value(model_.parameters[p]);
    states_.adopt(model_.parameters[p], model_.initial[p], model_.parts[p]);
    for (const std::string& suffix : states_of_parameter(options_)) {
      std::optional<driver::InitialValue> initial;
      if (suffix == "average") initial = model_.initial[p];
      StepStates::Parts parts = model_.parts[p];
      for (driver::StatePair::Part& part : parts) part.name += "." + suffix;
      const std::string name = value.name + "." + suffix;
      beside_[suffix].push_back(states_.add(name, value.type, std::move(initial), std::move(parts)));
    }
  }

  // Gradients become their means over the runs of this step up to now; returns their sums.
  Terms add_up(Terms& gradients) {
    Terms sums;
    if (run_ == kAbsent) return sums;
    for (size_t p = 0; p < gradients.size(); ++p) {
      sums.push_back(term(beside_["sum"][p]) + gradients[p]);
      gradients[p] = sums[p] * (1 / as_number(options_.runs_of_step));
    }
    return sums;
  }

  void leave_sums(const Terms& sums) {
    if (run_ == kAbsent) return;
    for (size_t p = 0; p < sums.size(); ++p) leave_if(good_, beside_["sum"][p], graph::where(full_, 0, sums[p]));
    leave_if(good_, run_, graph::where(full_, 0, term(run_) + 1));
  }

  void leave_if(const Term& condition, ValueId state, const Term& next) {
    states_.leave(state, condition ? graph::where(condition, next, term(state)) : next);
  }
  void leave_if_changed(ValueId state, const Term& next) { leave_if(both(good_, full_), state, next); }

  void update(size_t p, const Term& gradient, const Term& step) {
    const ValueId parameter = model_.parameters[p];
    builder_->name_after(model_.graph.value(parameter).name);
    Optimizer optimizer = options_.optimizer;
    if (is_one_of(model_.graph.value(parameter).name, options_.not_decayed)) optimizer.weight_decay = 0;
    const std::vector<std::string> kept = kept_by(optimizer);
    const auto state = [&](const std::string& suffix) { return beside_[suffix][p]; };
    const Terms before = mapped(kept, [&](const std::string& suffix) { return term(state(suffix)); });
    const Terms next = updated(optimizer, {term(parameter), gradient, term(parts_.rate), step, before});
    leave_if_changed(parameter, next[0]);
    for (size_t k = 0; k < kept.size(); ++k) leave_if_changed(state(kept[k]), next[k + 1]);
    if (options_.average == 0) return;
    const Term average = term(state("average"));
    leave_if_changed(state("average"), average * options_.average + next[0] * (1 - options_.average));
  }

  void leave_scale() {
    if (!options_.scale) return;
    const NextScale next = next_scale(*options_.scale, term(parts_.scale), term(good_steps_), good_);
    states_.leave(parts_.scale, next.scale);
    states_.leave(good_steps_, next.good_steps);
  }

  const TrainedModel& model_;
  const TrainOptions& options_;
  const StepParts& parts_;
  StepStates& states_;
  graph::GradientBuilder* builder_ = nullptr;
  std::map<std::string, std::vector<ValueId>> beside_;  // by suffix: the states beside the parameters
  ValueId step_ = kAbsent, run_ = kAbsent, good_steps_ = kAbsent, skipped_ = kAbsent;
  Term good_;  // whether loss and gradients are finite; nothing: nobody asks
  Term full_;  // whether this run ends a step; nothing: each does
};

}  // namespace

StepResults append_update(TrainedModel& model, const graph::OpTable& ops, const TrainOptions& options,
                          const StepParts& parts, StepStates& states) {
  UpdateMaker maker(model, options, parts, states);
  maker.add_states();
  graph::GradientBuilder builder(model.graph, ops);
  const ValueId loss = maker.run(builder).id();
  return {loss, maker.averages()};
}

}  // namespace tw::train
