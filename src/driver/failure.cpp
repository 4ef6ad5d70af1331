#include "driver/failure.h"

#include <filesystem>
#include <new>

#include "runtime/format/error.h"
#include "support/error.h"

namespace tw::driver {
namespace {

template <typename Error>
const Error* as(const std::exception& error) {
  return dynamic_cast<const Error*>(&error);
}

std::string_view type_of_code(int exit_code) {
  switch (exit_code) {
    case 2:
      return "usage";
    case 5:
      return "artefact";
    case 6:
      return "exhausted";
    case 70:
      return "internal";
    default:
      return "failure";
  }
}

}  // namespace

Failure failure_of(const std::exception& error) {
  if (as<UsageError>(error) != nullptr) return {2, "usage"};
  if (as<UserError>(error) != nullptr) return {3, "model"};
  if (as<Unsupported>(error) != nullptr) return {3, "unsupported"};
  if (as<ResourceError>(error) != nullptr || as<std::bad_alloc>(error) != nullptr) return {6, "exhausted"};
  if (as<Cancelled>(error) != nullptr) return {130, "cancelled"};
  if (const auto* e = as<CodedFailure>(error)) return {e->exit_code(), type_of_code(e->exit_code())};
  if (const auto* e = as<format::Error>(error)) {
    const int code = format::exit_code(e->code());
    return {code, type_of_code(code)};
  }
  if (const auto* e = as<std::filesystem::filesystem_error>(error)) {
    const bool full = e->code() == std::errc::no_space_on_device;
    return full ? Failure{6, "exhausted"} : Failure{1, "failure"};
  }
  if (as<std::system_error>(error) != nullptr) return {6, "exhausted"};  // a full disk, no more threads
  return {};
}

}  // namespace tw::driver
