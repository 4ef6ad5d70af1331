// What printer and parser of plans share. Private to src/plan.
#pragma once
#include <string>
#include <string_view>

namespace tw::plan {

inline constexpr std::string_view kHeader = "tilewright plan 2", kChosen = "chosen", kRough = "rough", kWhole = "whole";
/// Of plans without layouts of values, machine parameters and contents of groups.
inline constexpr std::string_view kHeaderOfFirst = "tilewright plan 1";

/// `text` as one line: ends of lines and backslashes behind a backslash; and back.
std::string escaped(std::string_view text);
std::string unescaped(std::string_view text);

}  // namespace tw::plan
