#include <fnmatch.h>

#include <algorithm>

#include "train/options.h"

namespace tw::train {

bool is_one_of(const std::string& name, const std::vector<std::string>& patterns) {
  return std::ranges::any_of(patterns, [&](const std::string& p) { return fnmatch(p.c_str(), name.c_str(), 0) == 0; });
}

}  // namespace tw::train
