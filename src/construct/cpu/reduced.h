// A product of matrices whose rows a reduction combines, by the tiles that compute them.
#pragma once
#include "construct/construct.h"

namespace tw::construct {

Result<Candidates> construct_reduced(const GroupTask& task, const TargetInfo& target);

}  // namespace tw::construct
