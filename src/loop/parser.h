// Reads the text that loop::to_string prints.
#pragma once
#include <string_view>

#include "loop/loop.h"

namespace tw::loop {

/// Inverse of to_string. Throws UserError with line and column.
Program parse_program(std::string_view text);

}  // namespace tw::loop
