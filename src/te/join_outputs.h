// Outputs at one iteration space as one compute: what leaves a group beside its last value is stored where that is.
#pragma once
#include "te/te.h"

namespace tw::te {

/// `program` with its outputs of the largest shape as one element-wise compute of several outputs, the last one, which
/// nothing reads; `program` itself where fewer than two are of that shape or none of them is element-wise, or sums of
/// columns leave, too, beside which each is stored by itself. What others read of them, or is a reduction, is computed
/// before under the name NAME_kept, and copied.
/// Outputs keep their names; those of the compute stand in the order in which they were computed.
Program join_outputs(const Program& program);

}  // namespace tw::te
