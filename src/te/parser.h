// Reads the text that te::to_string prints.
#pragma once
#include <string_view>

#include "te/te.h"

namespace tw::te {

/// Inverse of to_string. Throws UserError with line and column.
Program parse_program(std::string_view text);

}  // namespace tw::te
