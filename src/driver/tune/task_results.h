// What is known of the candidates of all tasks: from the tuning database and from measuring; which one is taken.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "database/database.h"
#include "driver/tune/prepared_task.h"
#include "driver/tune/shortlist.h"

namespace tw::driver {

/// A template whose mainloop-only kernel was faster than all other candidates.
struct Promising {
  size_t task, candidate;
  loop::Program loops;
  double ns, gained_ns;  // of the mainloop-only kernel, and by how much: more than the whole kernel can gain
};

class TaskResults {
 public:
  /// All four outlive the results.
  TaskResults(std::span<const TuneTask> tasks, const TuneContext& context, const TunerOptions& options,
              const Shortlist& shortlist);

  /// Takes what `database`, null: none, knows of the tasks `order`, and keeps there what is measured later; returns the
  /// tasks that it does not know all candidates of.
  std::vector<size_t> look_up(const std::vector<size_t>& order, database::Database* database);
  /// Candidates of task `t` to be measured: those that nobody knows, and the best known one, since times of one run
  /// compare.
  std::vector<size_t> wanted(size_t t) const;
  /// Adds the results of the workloads of `prepared`, and chooses.
  void take(size_t t, const PreparedTask& prepared, const std::vector<measure::Measured>& measured);

  /// Those worth a minute of nvcc, for the caller to compile; the others get the reason why not.
  std::vector<Promising> take_promising();
  void decline(size_t t, size_t candidate, const std::string& reason);

  const TuneResult& of(size_t t) const { return results_[t]; }
  std::vector<TuneResult> take_all() { return std::move(results_); }

 private:
  void judge_mainloop_only(size_t t, const PreparedTask& prepared, const std::vector<measure::Measured>& measured);
  void store(size_t t, std::span<const size_t> candidates);
  void report(size_t t) const;

  std::span<const TuneTask> tasks_;
  const TuneContext& context_;
  const TunerOptions& options_;
  const Shortlist& shortlist_;
  database::Database* database_ = nullptr;
  std::vector<TuneResult> results_;
  std::vector<Promising> promising_;
};

}  // namespace tw::driver
