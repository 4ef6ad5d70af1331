// Parameters as options name them.
#pragma once
#include <string>
#include <vector>

namespace tw::train {

/// Whether one of the patterns, with * for any characters, is the name.
bool is_one_of(const std::string& name, const std::vector<std::string>& patterns);

}  // namespace tw::train
