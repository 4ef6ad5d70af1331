// The worker's side: a loop that answers requests until the compiler hangs up. A worker is a long-lived execution of a
// program of ours that calls serve_worker() (`tilewright worker`), never a fork of the compiler.
#pragma once
#include <functional>

#include "measure/executor.h"

namespace tw::measure {

/// Serves the socket `channel` with the executor that `make` makes; why there is none is its only answer then. Returns
/// when it is closed, or when the executor can be used no more. `before`, if set, is called with every request before
/// it is answered: tests misbehave there.
void serve_worker(int channel, const MakeExecutor& make = make_cpu_executor,
                  const std::function<void(const Request& request)>& before = {});

}  // namespace tw::measure
