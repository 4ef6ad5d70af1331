// The four kinds of error. UserError, Unsupported and InternalError are thrown and end a compilation; what may decline
// without ending anything returns Result<T> with the reason. (The runtime has status codes of its own: C ABI.)
#pragma once
#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace tw {

/// An exception made from a text, or from a format and its arguments.
template <typename Base>
class FormattedError : public Base {
 public:
  using Base::Base;
  template <typename First, typename... Rest>
  FormattedError(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest)
      : Base(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...)) {}
};

/// The model, file or option is wrong: the message names the node, the shapes and what to change.
class UserError : public FormattedError<std::runtime_error> {
 public:
  using FormattedError::FormattedError;
};

/// An error that is about one node of a model; the message names it, too.
class NodeError : public UserError {
 public:
  template <typename... Args>
  explicit NodeError(std::string node, fmt::format_string<Args...> format, Args&&... args)
      : UserError(fmt::format(format, std::forward<Args>(args)...)), node_(std::move(node)) {}
  const std::string& node() const { return node_; }

 private:
  std::string node_;
};

/// A wrong command line or option value (exit code 2), as opposed to a wrong model (exit code 3).
class UsageError : public UserError {
 public:
  using UserError::UserError;
};

/// Valid input that Tilewright does not handle yet.
class Unsupported : public FormattedError<std::runtime_error> {
 public:
  using FormattedError::FormattedError;
};

/// Disk, memory or budget exhausted (exit code 6).
class ResourceError : public FormattedError<std::runtime_error> {
 public:
  using FormattedError::FormattedError;
};

/// Whoever asked for the work has given up: no failure of its own.
class Cancelled : public FormattedError<std::runtime_error> {
 public:
  using FormattedError::FormattedError;
};

/// A broken invariant of ours: never reachable from input alone.
class InternalError : public FormattedError<std::logic_error> {
 public:
  using FormattedError::FormattedError;
};

[[noreturn]] void fail_check(const char* file, int line, const char* condition, const std::string& message);

/// Why something was declined; a sentence without a final stop.
struct Reason {
  std::string text;
};

template <typename... Args>
Reason declined(fmt::format_string<Args...> format, Args&&... args) {
  return Reason{fmt::format(format, std::forward<Args>(args)...)};
}

/// A value, or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Reason reason) : state_(std::move(reason)) {}
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  const T& operator*() const& { return value(); }
  const T* operator->() const { return &value(); }
  const std::string& reason() const { return std::get<1>(state_).text; }

 private:
  std::variant<T, Reason> state_;
};

}  // namespace tw

/// TW_CHECK(condition, format, args...): throws InternalError with file and line when the condition does not hold.
#define TW_CHECK(condition, ...)                                                                     \
  do {                                                                                               \
    if (!(condition)) ::tw::fail_check(__FILE__, __LINE__, #condition, fmt::format("" __VA_ARGS__)); \
  } while (false)
