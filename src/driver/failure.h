// What an error means to whoever called the compiler: its exit code, and what programs call its kind.
#pragma once
#include <exception>
#include <string_view>

namespace tw::driver {

struct Failure {
  int exit_code = 70;
  /// "failure", "usage", "model", "unsupported", "artefact", "exhausted", "cancelled" or "internal".
  std::string_view type = "internal";
};

/// Whatever the compiler throws, and what the runtime's format, files and memory do besides.
Failure failure_of(const std::exception& error);

}  // namespace tw::driver
