// Between the tuner and its database: what a task and its results are as text.
#pragma once
#include <optional>
#include <vector>

#include "driver/tuner.h"
#include "tune/database/database.h"

namespace tw::driver {

/// Everything that the times of a task depend on.
tune::TaskKey task_key(const TuneTask& task, const TuneContext& context, const TunerOptions& options);

/// The record of candidate `plan`; nothing when `measured` says nothing of it.
std::optional<tune::Record> to_record(const plan::GroupPlan& plan, const tune::Measured& measured);

/// What `records` know of each candidate; kNotMeasured for those that they do not hold.
std::vector<tune::Measured> known_results(const std::vector<plan::GroupPlan>& candidates,
                                          const std::vector<tune::Record>& records);

/// tune::Database::revision() of the file `path`; 0 when there is none.
int64_t database_revision(const std::string& path, const tune::Database::Notice& notice);

/// A target with all its figures as one line: equal texts, equal constructions.
std::string target_text(const TargetInfo& target);

}  // namespace tw::driver
