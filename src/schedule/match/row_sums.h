// Rows that are reduced and leave beside sums of their columns: the gradient of a norm beside those of its scale and
// bias. A tile of a kernel takes some rows one after the other and keeps the sums.
#pragma once
#include <string>
#include <vector>

#include "schedule/match/stages.h"
#include "schedule/schedule.h"
#include "support/error.h"

namespace tw::schedule {

struct RowSums {
  te::Program program;
  std::string sum;     // reduction over the rows, or several; its axes are the columns
  std::string output;  // what follows it point by point, or itself
  /// The stages of a row, the terms of the sums as their last one, under the name of the sum, at [row, column]; the
  /// outputs of rows are its statistics, copies that nothing reads.
  RowProgram rows;
  std::string read;  // a tensor that the sums read at [row, ..]
  /// All outputs but those of the rows.
  std::vector<std::string> sums_that_leave() const;
  const te::Compute& reduction() const { return *program.find_compute(sum); }
  const te::Axis& row() const { return reduction().reduce_axes.front(); }
};

/// The primitives that inline what is cheap to repeat, and those that part outputs from what is read of them, are
/// appended to `s`.
Result<RowSums> match_row_sums(Schedule& s, const te::Program& program);

}  // namespace tw::schedule
