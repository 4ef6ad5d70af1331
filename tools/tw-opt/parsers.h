// Reads the text that te::to_string and loop::to_string print. Only tw-opt and tests do: the compiler itself keeps
// nothing but graphs and plans as text.
#pragma once
#include <string_view>

#include "loop/loop.h"
#include "te/te.h"

namespace tw::te {

/// Inverse of to_string. Throws UserError with line and column.
Program parse_program(std::string_view text);

}  // namespace tw::te

namespace tw::loop {

/// Inverse of to_string. Throws UserError with line and column.
Program parse_program(std::string_view text);

}  // namespace tw::loop
