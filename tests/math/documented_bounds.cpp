#include "tests/math/documented_bounds.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace tw::testing {
namespace {

// "| `exp` | 2 | result | ..." -> exp, 2, result
std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in(line.substr(1));
  for (std::string cell; std::getline(in, cell, '|');) {
    const size_t begin = cell.find_first_not_of(" `");
    const size_t end = cell.find_last_not_of(" `");
    out.push_back(begin == std::string::npos ? "" : cell.substr(begin, end - begin + 1));
  }
  return out;
}

BoundUnit unit_of(const std::string& word) {
  if (word == "result") return BoundUnit::kResult;
  if (word == "factor") return BoundUnit::kFactor;
  if (word == "operand") return BoundUnit::kOperand;
  throw std::runtime_error("no unit of a bound: " + word);
}

}  // namespace

std::vector<DocumentedBound> documented_bounds() {
  std::ifstream file(TW_SOURCE_DIR "/docs/internals/vector-math.md");
  std::vector<DocumentedBound> rows;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("| `")) continue;
    const std::vector<std::string> row = cells(line);
    rows.push_back({row.at(0), std::stod(row.at(1)), unit_of(row.at(2))});
  }
  if (rows.empty()) throw std::runtime_error("docs/internals/vector-math.md holds no table of bounds");
  return rows;
}

}  // namespace tw::testing
