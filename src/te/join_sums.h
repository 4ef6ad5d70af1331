// Sums of the same columns as one reduction of several outputs: what they read is read once.
#pragma once
#include "te/te.h"

namespace tw::te {

/// `program` with its outputs that are sums over the same axes, keep the contiguous one, and that nothing reads, as one
/// compute, the last of them; `program` itself where there are fewer than two.
Program join_sums(const Program& program);

/// Whether it is a reduction every read of which has the last axis that is kept, of those of several points, for its
/// last index.
bool sums_columns(const Compute& compute);

}  // namespace tw::te
