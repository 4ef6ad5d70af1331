// Where the tiles of a nest run: a kernel of its own, or inside a loop of another stage.
#pragma once
#include <string>

#include "schedule/schedule.h"

namespace tw::construct {

struct TilePlace {
  std::string consumer, loop;  // inside this loop of this stage, the output in scratch memory; empty: a root
  bool shares_blocks = false;  // of a contraction as a root: threads share whole blocks of rows, not register tiles
  std::string read = {};       // of rows that come in turns: a tensor whose rows the consumer reads there
};

}  // namespace tw::construct
