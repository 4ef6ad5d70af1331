// How each group is implemented: candidates from the target's families, the best one by measuring or by prediction.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "driver/tune/tuner.h"

namespace tw::driver {

/// What entries that are compiled already say of a group.
struct Precedent {
  std::map<std::string, std::vector<Layout>> stored = {};  // construct::GroupTask
  /// What computes the group of that name in the entry before. Of other sizes little else is better: two candidates of
  /// the family are measured, where it has some. Empty: there is none.
  std::string family = {};
  /// How that was constructed: the first line of its trace, of a group that was measured. The candidate of which this
  /// is true here, too, comes first.
  std::string tile = {};
};

/// Decides each te program once in a compilation, whatever number of groups and entries have it.
class Planner {
 public:
  /// `tuner` may be null: then the constructors' own order decides. `explore`: candidates drawn at random are measured
  /// too. `libraries`, `precision`: those of GroupTask.
  Planner(const targets::Target& target, Tuner* tuner, const construct::Sampling& explore = {},
          construct::Libraries libraries = {}, Precision precision = Precision::kDefault)
      : target_(target), tuner_(tuner), explore_(explore), libraries_(std::move(libraries)), precision_(precision) {}

  /// A group that will be asked for. Names are for messages and plans; `text`: text_of(te), and what tells groups of
  /// other precedents apart.
  void add(const std::string& name, const GroupTe& te, const std::string& text, const Precedent& precedent = {});
  void add(const std::string& name, const GroupTe& te) { add(name, te, text_of(te)); }
  /// A group whose time is wanted: it is measured even if that decides nothing about it.
  void add_timed(const std::string& name, const GroupTe& te);
  bool measures() const { return tuner_ != nullptr; }
  /// Whether a group of that text was added.
  bool has(const std::string& text) const { return tasks_.contains(text); }
  /// Decides all that was added and is not decided yet.
  void decide(const TuneContext& context);
  /// The decision for a group that was added.
  plan::GroupPlan plan(const std::string& name, const GroupTe& te) const { return plan_of(name, text_of(te)); }
  plan::GroupPlan plan_of(const std::string& name, const std::string& text) const;
  /// The time of a program by text_of(); 0 where none was measured.
  double microseconds_of(const std::string& text) const;

 private:
  struct Task {
    TuneTask tune;
    Precedent precedent;
    std::vector<plan::OtherCandidate> declined;  // families
    size_t next_family = 0;                      // after the one that made the candidates
    bool decided = false;
    plan::GroupPlan plan;
  };

  Task& find_or_make(const std::string& name, const GroupTe& te, const std::string& text,
                     const Precedent& precedent = {});
  void construct(Task& task);
  void explore(const construct::GroupTask& group, const construct::Constructor& family,
               construct::Candidates& candidates) const;
  void follow(const Precedent& precedent, construct::Candidates& built, construct::Candidates& joining) const;
  void settle(Task& task, const TuneResult& result);

  const targets::Target& target_;
  Tuner* tuner_;
  construct::Sampling explore_;
  construct::Libraries libraries_;
  Precision precision_;
  std::map<std::string, Task> tasks_;  // by te program and constants, as text
};

}  // namespace tw::driver
