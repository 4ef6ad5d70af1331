// The name of a target: "cpu:x86-64-v4", "cuda:sm_90a".
#pragma once
#include <string>
#include <string_view>

#include "core/target_info.h"

namespace tw {

/// The name without its kind: "cpu:x86-64-v4" -> "x86-64-v4".
inline std::string architecture(std::string_view target) { return std::string(target.substr(target.find(':') + 1)); }
inline std::string architecture(const TargetInfo& target) { return architecture(target.name); }

}  // namespace tw
