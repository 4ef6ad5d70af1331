// What an error means to whoever called the compiler: its exit code, and what programs call its kind.
#pragma once
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tw::driver {

struct Failure {
  int exit_code = 70;
  /// "failure", "usage", "model", "unsupported", "artefact", "exhausted", "cancelled" or "internal".
  std::string_view type = "internal";
};

/// A failure of somebody who says its exit code: the runtime.
class CodedFailure : public std::runtime_error {
 public:
  CodedFailure(int exit_code, const std::string& message) : std::runtime_error(message), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

/// Whatever the compiler throws, and what the runtime's format, files and memory do besides.
Failure failure_of(const std::exception& error);

}  // namespace tw::driver
