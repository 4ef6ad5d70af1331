// What follows a reduction in its group: element-wise stages that are computed tile by tile with it, the values of a
// tile in registers.
#pragma once
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace tw::construct {

/// One tile of the stage `output`.
struct EpilogueTile {
  std::string source;             // the reduction
  std::string output;             // the stage that owns the tile
  std::string loop;               // of `output`, the innermost one outside the tile
  std::vector<std::string> rows;  // axes whose points inside the tile are unrolled
  std::string column;             // axis of the vectors
  int lanes = 1;
};

/// Attaches the stages between `source` and `output` to the tile; these are read more than once, others are inlined.
void schedule_epilogue(const te::Program& program, const EpilogueTile& tile, schedule::Schedule& s);

}  // namespace tw::construct
