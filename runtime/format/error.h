// Errors of the runtime and of the artefact format: a code that callers act on and a message that people read.
// The codes are those of TwStatusCode in tilewright/runtime.h.
#pragma once
#include <concepts>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace tw::format {

enum class ErrorCode : int {
  kInternal = 1,
  kInvalidArgument = 2,
  kNoSuchShape = 3,
  kInputValue = 4,
  kDamaged = 5,
  kIncompatible = 6,
  kDevice = 7,
  kOutOfMemory = 8,
  kDiskFull = 9,
  kIo = 10,
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, std::string details = "{}")
      : std::runtime_error(message), code_(code), details_(std::move(details)) {}
  ErrorCode code() const { return code_; }
  /// A JSON object for programs: what TwApi::status_details says.
  const std::string& details() const { return details_; }

 private:
  ErrorCode code_;
  std::string details_;
};

/// The exit code of the command line for an error: 2 wrong input, 5 artefact or device, 6 memory or disk, 70 a defect
/// of ours, 1 anything else.
int exit_code(ErrorCode code);

/// `parts` joined; integers in decimal. Independent of the locale, which a stream would not be.
inline void append(std::string& out, std::string_view part) { out += part; }
template <std::integral T>
void append(std::string& out, T part) {
  out += std::to_string(part);
}
template <typename... Parts>
std::string join(const Parts&... parts) {
  std::string out;
  (append(out, parts), ...);
  return out;
}

template <typename... Parts>
[[noreturn]] void fail(ErrorCode code, const Parts&... parts) {
  throw Error(code, join(parts...));
}

/// constexpr Require require{"manifest: "} is a function that throws Error(kDamaged) about that unless a condition
/// holds.
struct Require {
  std::string_view about = {};
  template <typename... Parts>
  void operator()(std::same_as<bool> auto condition, const Parts&... parts) const {
    if (!condition) fail(ErrorCode::kDamaged, about, parts...);
  }
};

/// Throws for a failed system call: "DOING: reason", with a code chosen from errno (disk full, out of memory, I/O).
[[noreturn]] void fail_errno(int error, const std::string& doing);

}  // namespace tw::format
