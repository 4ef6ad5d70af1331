// From compiled groups to an artefact: where each value lives, the steps, the weights.
#pragma once
#include <vector>

#include "driver/artefact/compiled.h"

namespace tw::driver {

/// For every entry: places values (arena with reuse, inputs, outputs), lists the steps, and prints the graph of groups
/// as section "graph.N". Constants that are equal as stored are kept once for all entries of all targets.
/// The last inputs and outputs of the entries' graphs are those of `states`.
Assembled assemble(DeviceKind device, const std::vector<LevelCode>& levels, std::vector<format::State> states,
                   Branches branches);

}  // namespace tw::driver
