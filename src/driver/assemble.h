// From compiled groups to an artefact: where each value lives, the steps, the weights.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "driver/compile_level.h"
#include "runtime/format/manifest.h"

namespace tw::driver {

struct Assembled {
  format::Manifest manifest;                             // targets, kernels and entries
  std::map<std::string, std::vector<uint8_t>> sections;  // code or cubin.N, weights, graph.N
};

/// For every entry: places values (arena with reuse, inputs, outputs), lists the steps, and prints the graph of groups
/// as section "graph.N". Constants that are equal as stored are kept once for all entries of all targets.
Assembled assemble(DeviceKind device, const std::vector<LevelCode>& levels);

}  // namespace tw::driver
