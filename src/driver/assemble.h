// From compiled groups to an artefact: where each value lives, the steps, the weights.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "driver/compile_entry.h"
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

struct AssembleInput {
  DeviceKind device;
  const std::vector<ProgramCode>& programs;  // of the ProgramSet
  const std::vector<EntryCode>& entries;
};

struct Assembled {
  format::Manifest manifest;                             // kernels and entries
  std::map<std::string, std::vector<uint8_t>> sections;  // code or cubin.N, weights, graph.N
};

/// For every entry: places values (arena with reuse, inputs, outputs), lists the steps, and prints the graph of groups
/// as section "graph.N". Constants that are equal as stored are kept once for all entries.
Assembled assemble(const AssembleInput& in);

}  // namespace tw::driver
