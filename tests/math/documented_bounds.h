// The table of docs/internals/vector-math.md, as the tests read it.
#pragma once
#include <ostream>
#include <string>
#include <vector>

namespace tw::testing {

/// Where the ulp is taken: at f(x), at the larger of f(x) and x times the least normal number, at the larger of f(x),
/// x.
enum class BoundUnit : uint8_t { kResult, kFactor, kOperand };

/// |y - f(x)| <= ulp * ulp_f32(unit)
struct DocumentedBound {
  std::string name;
  double ulp = 0;
  BoundUnit unit = BoundUnit::kResult;
};
inline void PrintTo(const DocumentedBound& bound, std::ostream* out) { *out << bound.name; }

/// Rows in the order of the file.
std::vector<DocumentedBound> documented_bounds();

}  // namespace tw::testing
