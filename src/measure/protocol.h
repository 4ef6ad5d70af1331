// Version of what is measured and how: a time of another version is another time.
#pragma once
#include <string_view>

namespace tw::measure {

/// Counts up when a candidate may get another time or another verdict than before: a change of how workers run and time
/// it, of the runtime's thread pool and launches, of what is checked before its time counts, or of the messages between
/// compiler and worker.
inline constexpr int kMeasuringProtocol = 4;

/// How the program that runs candidates was built: its thread pool is part of what is timed.
inline constexpr std::string_view kRunnerBuild =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    "sanitized";
#elif defined(__OPTIMIZE__)
    "optimized";
#else
    "unoptimized";
#endif

}  // namespace tw::measure
