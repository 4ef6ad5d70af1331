// A contraction whose rows a reduction combines: means and extremes over the pixels or tokens of a convolution or of a
// product of matrices. A tile that has all rows of a part can combine them itself.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "support/error.h"
#include "te/te.h"

namespace tw::schedule {

struct ReducedProduct {
  te::Program program;                    // with `layouts`
  std::map<std::string, Layout> layouts;  // of stages: the columns last
  std::string sum;                        // of products
  std::string value;                      // what follows it point by point; the reduction alone reads it
  std::string reduction;                  // keeps the columns
  std::string output;                     // what follows the reduction point by point
  std::vector<std::string> stages;        // from the sum to the value
  std::vector<size_t> rows;               // dims of the value that are combined, in the order of the reduction's axes
  std::vector<int64_t> parts;             // into which the first of them may be cut: rows of a part fill a tile
};

/// Declines what is no such program, or has no such parts.
Result<ReducedProduct> match_reduced_product(const te::Program& program);

/// Rows of a tile that takes `rows` of them.
int64_t rows_of_tile(int64_t rows);

}  // namespace tw::schedule
