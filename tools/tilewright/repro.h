// What a user can send us when the compiler itself has failed.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace tw::cli {

/// Writes the folder repro/HASH below the working directory: `command.txt` (version, message, the command that fails
/// again inside the folder) and copies of the files that the command names. Returns the folder, or an empty string when
/// it cannot be written. Never throws.
std::string write_repro(std::span<const std::string> command, std::string_view message) noexcept;

}  // namespace tw::cli
