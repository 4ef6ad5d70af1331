// Templates of the library as a family of schedules.
#pragma once
#include "construct/construct.h"

namespace tw::targets {

/// Rows that are built, best predicted first, for groups that they compute; of the right architecture.
Result<construct::Candidates> construct_templates(const construct::GroupTask& task, const TargetInfo& target);

}  // namespace tw::targets
