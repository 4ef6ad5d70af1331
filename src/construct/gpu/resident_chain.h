// Products one after the other on GPUs, as one kernel: the rows between them never leave the chip.
#pragma once
#include "construct/construct.h"
#include "schedule/match/tile_chain.h"

namespace tw::construct {

/// Adds the schedules by tiles that hold rows of all products of `chain`: `base` with more behind it.
void add_resident(const schedule::Chain& chain, const GroupTask& task, const Construction& base,
                  const TargetInfo& target, Candidates& candidates);

}  // namespace tw::construct
