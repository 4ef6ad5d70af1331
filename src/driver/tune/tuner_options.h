// What a caller of the compiler says about measuring.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "construct/construct.h"
#include "measure/measurer.h"

namespace tw::driver {

/// What happened to one candidate, for whoever watches.
struct TuneEvent {
  std::string group;
  int64_t candidate = 0;   // its place in the constructor's order
  int64_t candidates = 0;  // of the group
  measure::Measured measured;
  double predicted_us = 0;
  std::vector<std::string> trace;  // how it was constructed
  double best_us = 0;              // of the group so far
};

struct TunerOptions {
  /// Starts a worker: a program that serves the measuring protocol, and its arguments. Empty: nothing is measured.
  std::vector<std::string> worker;
  std::string database;       // file of tuning records (database), empty: none
  int threads = 0;            // that candidates run with: those that the artefact will mostly run with; 0: all CPUs
  double budget_seconds = 0;  // for all groups together; 0: no limit
  double light_us = 5;        // groups that are faster by estimate are not measured; on a GPU a fifth of it
  /// Of the model's time: groups with less of it have fewer candidates measured, and a fifth of it is what a template
  /// must promise to gain to be compiled.
  double whole_share = 0.05;
  double lock_seconds = 20;           // that another compiler on this machine is waited for, a group each time
  double run_seconds = 2;             // before a candidate counts as hanging, besides many times its expected time
  double drop_ratio = 1.25;           // see measure::MeasureOptions
  bool measure_all = false;           // every candidate of every group to the end: the figures above do not count
  construct::Sampling explore;        // of each group, besides the constructors' own candidates
  std::function<bool()> interrupted;  // true: keep the best so far; asked by several threads
  std::function<void(const TuneEvent& event)> event;
  /// What is worth saying and no error; unset: these become warnings of the compilation.
  std::function<void(const std::string& notice)> notice;
};

}  // namespace tw::driver
