// What each gradient rule is checked on.
#pragma once
#include <string>
#include <vector>

#include "tests/transform/train/gradient_check.h"

namespace tw::testing {

/// Cases of some operators.
struct CaseSet {
  std::string name;
  std::vector<Case> cases;
};
std::vector<CaseSet> element_cases();
std::vector<CaseSet> movement_cases();
std::vector<CaseSet> window_cases();

}  // namespace tw::testing
