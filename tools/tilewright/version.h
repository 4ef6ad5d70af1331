// What this program calls itself.
#pragma once
#include <string_view>

namespace tw::cli {

inline constexpr std::string_view kVersionText = "tilewright 0.1.0";

}  // namespace tw::cli
