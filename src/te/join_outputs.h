// Outputs at one iteration space as one compute: what leaves a group beside its last value is stored where that is, and
// what sums of the same columns read is read once.
#pragma once
#include "te/te.h"

namespace tw::te {

/// `program` with its outputs of the largest shape as one element-wise compute of several outputs, the last one, which
/// nothing reads; `program` itself where fewer than two are of that shape or none of them is element-wise, or sums of
/// columns leave, too, beside which each is stored by itself. What others read of them, or is a reduction, is computed
/// before under the name NAME_kept, and copied.
/// Outputs keep their names; those of the compute stand in the order in which they were computed.
Program join_outputs(const Program& program);

/// `program` with its outputs that are sums over the same axes, keep the contiguous one, and that nothing reads, as one
/// compute, the last of them; `program` itself where there are fewer than two.
Program join_sums(const Program& program);

/// Whether it is a reduction every read of which has the last axis that is kept, of those of several points, for its
/// last index.
bool sums_columns(const Compute& compute);

}  // namespace tw::te
