// What parallel regions of the runtime cost beyond the work in them.
#pragma once
#include "runtime/thread_pool.h"

namespace tw::driver::machine {

/// Nanoseconds that a list of `loops` loops on all threads of `pool` takes longer than its tiles, one tile of a
/// microsecond for each thread in each loop: the best decile of many lists in which every thread did its own tiles.
/// 0 when there was no such list: other programs use the CPUs.
double region_ns(runtime::ThreadPool& pool, int loops);

}  // namespace tw::driver::machine
