// NVIDIA's libraries on this machine, as the runtime opens them.
#pragma once
#include "construct/construct.h"

namespace tw::runtime::cuda {
struct Driver;
}

namespace tw::measure {

/// Those that are installed, for the GPU of find_gpu(architecture): it is asked for only when a library needs it to say
/// what it offers.
construct::Libraries find_libraries(const std::string& architecture);
/// Through a driver of the caller's, which must outlive the result.
construct::Libraries find_libraries(const std::string& architecture, const runtime::cuda::Driver& driver);

}  // namespace tw::measure
