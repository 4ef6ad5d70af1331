// How much memory there is for more processes.
#pragma once
#include <cstdint>
#include <string_view>

namespace tw {

/// ResourceError, with both figures, when `bytes` more for `what` are more than processes may still take: of the
/// machine, or of the control group that we live in.
void require_memory(int64_t bytes, std::string_view what);
/// How many processes that take `bytes` each may run at the same time: one for each CPU, fewer where memory is short,
/// one at least.
int processes_that_fit(int64_t bytes);

}  // namespace tw
