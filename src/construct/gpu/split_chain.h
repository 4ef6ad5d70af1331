// Attention of few queries on GPUs: parts of the keys in parallel.
#pragma once
#include "construct/gpu/streamed_chain.h"

namespace tw::construct {

/// Adds the schedules by tiles of all rows with a part of the keys each, whose results a second kernel combines: `base`
/// with more behind it. None where rows fill tiles.
void add_split(const StreamedProducts& products, const Construction& base, const TargetInfo& target,
               Candidates& candidates);

}  // namespace tw::construct
