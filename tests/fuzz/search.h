// What every fuzzer does around its inputs: arguments, time, crashes and hangs that name the iteration.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tw::fuzz {

struct Arguments {
  double seconds = 5;
  uint64_t seed = 1;
  int64_t iteration = -1;  // only this one
  std::vector<std::string> paths;
};

/// [--seconds N] [--seed S] [--iteration I] PATH...; TW_FUZZ_SECONDS is the default of --seconds.
Arguments parse_arguments(int count, char** values);

/// Calls once(i) for i = 0, 1, .. until the time is over, or for the iteration that is asked: it says what is wrong
/// with that input, or nothing. Returns the number of inputs; nothing after a failure, which is printed with its
/// iteration. An input that crashes, or takes longer than 20 s, ends the process in the same way. `name` is the
/// fuzzer's.
std::optional<int64_t> search(const char* name, const Arguments& arguments,
                              const std::function<std::string(uint64_t iteration)>& once);

}  // namespace tw::fuzz
