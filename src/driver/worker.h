// The worker that measures, for programs that are one: `tilewright worker`.
#pragma once

namespace tw::driver {

/// Serves a compiler on standard input, a socket, until it hangs up. UsageError when it is none.
void serve_compiler();

}  // namespace tw::driver
