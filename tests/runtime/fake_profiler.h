// What a profiler of GPUs is told.
#pragma once
#ifdef TW_RUNTIME_CUDA
#include <string>
#include <vector>

namespace tw::test {

/// The names of ranges as they begin, and "end" for each that ends.
extern std::vector<std::string> ranges;

}  // namespace tw::test
#endif
