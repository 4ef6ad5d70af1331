// Errors as status objects of the C interface: nothing is thrown past it.
#pragma once
#include <algorithm>
#include <concepts>
#include <cstring>
#include <exception>
#include <string>

#include "support/error.h"
#include "tilewright/compiler.h"

struct TwCompilerStatus {
  TwCompilerErrorKind kind = TW_COMPILER_INTERNAL;
  std::string message;
  std::string details;  // a JSON object
};

namespace tw::driver::api {

/// Text of the compiler with options as a program calls them: "--dim" as "option 'dim'".
std::string in_words_of_programs(std::string_view text);

/// How a program calls an option.
inline std::string spelled(std::string_view option) { return fmt::format("option '{}'", option); }

/// The status of an error; of one that there is no memory to describe one that is always there.
TwCompilerStatus* status_of(const std::exception& error) noexcept;
void free_status(TwCompilerStatus* status);

/// UsageError unless the condition holds, or the pointer points to something.
inline void require(const std::convertible_to<bool> auto& condition, const char* text) {
  if (!condition) throw UsageError(text);
}

/// Runs `body`; what it throws as a status.
template <typename Body>
TwCompilerStatus* guarded(const Body& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (const std::exception& error) {
    return status_of(error);
  }
}

/// Copies as much of `value` as the caller's structure has.
template <typename Struct>
void hand_out(Struct value, Struct* target) {
  require(target != nullptr && target->struct_size >= sizeof(size_t),
          "the structure is NULL or its struct_size not set");
  value.struct_size = target->struct_size;
  std::memcpy(target, &value, std::min(target->struct_size, sizeof(value)));
}

}  // namespace tw::driver::api
