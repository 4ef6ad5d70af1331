// Between the tuner and its database: what a task and its results are as text.
#pragma once
#include <optional>
#include <vector>

#include "database/database.h"
#include "driver/tune/task.h"
#include "driver/tune/tuner_options.h"

namespace tw::driver {

/// Everything that the times of a task depend on: its maths, the machine, and the versions of what makes and measures
/// code. Not the build of this compiler, nor machine parameters that only predictions are made of.
database::TaskKey task_key(const TuneTask& task, const TuneContext& context, const TunerOptions& options);

/// The record of candidate `plan`; nothing when `measured` says nothing of it.
std::optional<database::Record> to_record(const plan::GroupPlan& plan, const measure::Measured& measured);

/// What `records` know of each candidate; kNotMeasured for those that they do not hold. A rough time says that a
/// candidate lost: it is known where another one has a better time that is not rough, and counts for nothing where
/// `drop_ratio` (measure::MeasureOptions) is infinite.
std::vector<measure::Measured> known_results(const std::vector<plan::GroupPlan>& candidates,
                                             const std::vector<database::Record>& records, double drop_ratio);

/// database::Database::revision() of the file `path`; 0 when there is none.
int64_t database_revision(const std::string& path);

/// A target with all its parameters as one line: equal texts, equal constructions.
std::string target_text(const TargetInfo& target);

}  // namespace tw::driver
