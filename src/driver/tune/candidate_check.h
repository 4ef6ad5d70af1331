// Whether candidates of a group compute the group: samples of their outputs against a reference that shares nothing
// with their schedules.
#pragma once
#include <string>
#include <vector>

#include "driver/tune/sampled_reference.h"
#include "driver/tune/task.h"
#include "graph/ref_tensor.h"

namespace tw::driver {

/// Largest number of elements that are compared of each output.
inline constexpr int64_t kCheckedElements = 4096;

class CandidateCheck {
 public:
  /// Makes the reference of `task` at points that suit its candidates (places where their tiles meet). Declines when
  /// there is none; candidates cannot be checked then, so none may be timed.
  static Result<CandidateCheck> make(const TuneTask& task, const TuneContext& context);
  /// Evaluates the reference through `measurer`, before anything is checked: why that failed, or an empty string.
  std::string run_reference(measure::Measurer& measurer);

  /// Fills the inputs of `work` as those of the reference, and makes it return what check() wants to see.
  void prepare(const loop::Program& loops, measure::Workload& work) const;
  /// Why the samples of a candidate's first run are wrong; empty when they are right.
  std::string check(const measure::Samples& samples) const;
  /// Whether two candidates that passed check() differ by more than both may, somewhere.
  std::string disagree(std::span<const measure::Difference> differences) const;

 private:
  struct Output {
    std::string tensor;
    std::vector<int64_t> elements;
    graph::RefTensor want;
    std::vector<double> bounds;
    bool rounded = false;  // whether operations before it round: integers may then differ now and then
  };
  void read(const SampledReference& reference, const measure::Samples& samples);
  bool is_mostly_finite() const;

  SampledReference reference_;
  measure::Workload reference_work_;             // until it ran
  measure::Fill fill_ = measure::Fill::kSigned;  // the first one that gives finite values
  std::vector<Output> outputs_;
};

}  // namespace tw::driver
