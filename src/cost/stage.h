// Closed-form costs of stages that no register tile describes: issue cycles of their bodies, and the time of a nest on
// all cores or one.
#pragma once
#include "core/target_info.h"
#include "cost/nest.h"

namespace tw::cost {

/// Issue cycles of `compute` for one vector of points: loads, operations and elementary functions of its body, the
/// combination of a reduction, and a store. An issue cycle is the time of one FMA at peak.
double body_cycles(const te::Compute& compute);

/// Time in ns of `nest` whose arithmetic takes `arithmetic_ns` on one core and that falls into `tiles` equal tiles: on
/// all cores, or on one where starting the others takes longer.
double run_ns(const Nest& nest, double arithmetic_ns, int64_t tiles, const TargetInfo& target);

/// False where it takes hardly less on all cores. Neighbours of which one core computes each need no barrier between
/// them.
bool threads_pay(const Nest& nest, double arithmetic_ns, int64_t tiles, const TargetInfo& target);

/// What `program` reads and writes while the axes of `output` and `reduced` run, in this order: inputs of all its
/// stages where they are read along these axes, and the output.
Nest streaming_nest(const te::Program& program, const te::Compute& output, const std::vector<te::Axis>& reduced);

}  // namespace tw::cost
