// The workers of a compiler, for programs that are one: `tilewright worker`.
#pragma once
#include <string>

namespace tw::driver {

/// Serves a compiler on standard input, a socket, until it hangs up. What for: "cpu" runs candidates here
/// (measure), the architecture of a GPU ("sm_90a") runs them there, "cubins" compiles GPU kernels (codegen/cuda).
/// UsageError when standard input is no socket.
void serve_compiler(const std::string& job);

}  // namespace tw::driver
