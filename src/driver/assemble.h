// From compiled groups to an artefact: where each value lives, the steps, the weights.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "driver/group_code.h"
#include "runtime/format/manifest.h"

namespace tw::driver {

/// Machine code of one distinct loop program: position-independent code or a cubin, and its kernels.
struct ProgramCode {
  std::vector<std::byte> bytes;
  struct Entry {
    std::string name;           // of the function in a cubin
    int64_t offset = 0;         // CPU: of the entry point in `bytes`
    int64_t bytes = 0;          // CPU: of the function
    int64_t scratch_bytes = 0;  // CPU: for each thread
  };
  std::vector<Entry> kernels;  // in the order of the loop program
};

/// Groups whose output is stored in the place of their input: a view needs no step. Output value -> input value.
/// A view of an input or constant that leaves the graph is no alias, nor is one of two outputs on one storage.
std::map<graph::ValueId, graph::ValueId> find_aliases(const graph::Graph& graph);

struct AssembleInput {
  DeviceKind device;
  const graph::Graph& graph;
  const std::vector<GroupCode>& groups;      // one for each node; views that are aliases have no kernels
  const std::vector<ProgramCode>& programs;  // distinct
  const std::vector<int>& program_of_group;  // index into programs, -1 for an alias
  const std::map<graph::ValueId, graph::ValueId>& aliases;
  bool reuse_memory = true;
};

struct Assembled {
  format::Manifest manifest;                             // kernels and one entry
  std::map<std::string, std::vector<uint8_t>> sections;  // code or cubin.N, weights
};

/// Places values (arena with reuse, inputs, outputs), stores constants in their layouts once each, lists the steps.
Assembled assemble(const AssembleInput& in);

}  // namespace tw::driver
