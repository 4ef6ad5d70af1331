// What a target has beyond the least of its architecture.
#pragma once
#include <algorithm>
#include <string_view>

#include "core/target_info.h"

namespace tw {

/// Whether `target` has an instruction set extension: "fma", "sse4.1" (roundings to integers), "avx512vnni".
inline bool has_feature(const TargetInfo& target, std::string_view feature) {
  return std::ranges::find(target.features, feature) != target.features.end();
}

}  // namespace tw
