// Tests that take long take a sample of what they are about; with TW_TEST_ALL in the environment they take all of it.
#pragma once
#include <cstdlib>

namespace tw::testing {

inline bool takes_all() { return std::getenv("TW_TEST_ALL") != nullptr; }

}  // namespace tw::testing
