// An element-wise value that leaves its group beside a reduction of its columns: gradients of biases and scales beside
// the gradient, a mean over pixels beside the pixels.
#pragma once
#include <string>

#include "schedule/schedule.h"
#include "support/error.h"

namespace tw::schedule {

struct ColumnSums {
  te::Program program;
  std::string value;   // output [.., row, .., column], which the reduction reads at its own points
  std::string sum;     // reduction over the rows, or several; its axes are the others of the value, the column last
  std::string output;  // what follows the sum point by point, or itself
  int row_dim = 0;     // of the value
  const te::Compute& reduction() const { return *program.find_compute(sum); }
  /// All outputs but the value.
  std::vector<std::string> sums_that_leave() const;
  const te::Axis& row() const { return reduction().reduce_axes.front(); }
};

/// The primitives that inline what is read once are appended to `s`.
Result<ColumnSums> match_column_sums(Schedule& s, const te::Program& program);

}  // namespace tw::schedule
