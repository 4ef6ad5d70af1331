// The worker's side: a loop that answers requests until the compiler hangs up. A worker is a long-lived execution of a
// program of ours that calls serve_worker() (`tilewright worker`), never a fork of the compiler.
#pragma once
#include <functional>

#include "tune/measure/messages.h"

namespace tw::tune {

/// Serves the socket `channel`. Returns when it is closed. `before`, if set, is called with every request before it is
/// answered: tests misbehave there.
void serve_worker(int channel, const std::function<void(const Request& request)>& before = {});

}  // namespace tw::tune
